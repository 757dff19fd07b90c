"""Readback, as it runs inside each of SGLang's model processes: the layout at start, answers on request."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from torch import nn

from bridge_plugins.engines.sglang import world
from bridge_plugins.engines.sglang.actions import ACTIONS
from bridge_plugins.engines.sglang.holders import Agreement
from bridge_plugins.engines.sglang.known import Known
from bridge_plugins.engines.sglang.layout_files import LayoutFile
from bridge_plugins.engines.sglang.loading import checkpoint_folder, loader_of, reloader_of, why_not_again
from bridge_plugins.engines.sglang.models import MODELS
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.errors import LayoutError
from bridge_plugins.layout.probe import Layout, find_layout
from bridge_plugins.layout.sources import Source, read_sources

logger = logging.getLogger(__name__)

PREFIX = "bridge."
LIVE = "live"


def probe_after_load(result: Any, runner: Any, *_: Any, **__: Any) -> Any:
    """After ``ModelRunner.load_model``: find out the layout, before there is traffic or a CUDA graph.

    A server whose layout can't be found out serves all the same, and says why when it is asked. Only one whose
    weights did not come back after the probe (`LayoutError`) must not. ``BRIDGE_READBACK=live`` leaves the probe to
    the action `probe`.
    """
    MODELS.loaded(runner)
    # A draft's model may live on one pipeline stage alone: nothing can be agreed on with ranks that have none.
    alone = getattr(runner, "is_draft_worker", False) and runner.pp_size > 1
    if os.environ.get("BRIDGE_READBACK") == LIVE:
        # While a server runs, its stages take requests one after the other: the first can't wait for the last.
        runner.model._bridge_probe = partial(_prepare, runner, None, alone=alone or runner.pp_size > 1)
    else:
        reload = partial(reloader_of, runner)
        # Asked for through the model, which the weight checker knows.
        runner.model._bridge_known = _prepare(runner, reload, alone=alone)
    return result


def _prepare(
    runner: Any, reloader: Callable[[str], Callable[[], None] | None] | None, *, alone: bool
) -> Known:
    """Find out the layout, and agree with the other ranks. No rank leaves before that, or the others would wait."""
    sources: list[Source] = []
    layout: Layout | None = None
    lost: LayoutError | None = None
    why = ""
    try:
        folder = checkpoint_folder(runner.model_config.model_path)
        sources = read_sources(folder)
        file = LayoutFile.of(runner, sources)
        layout = file.read() if file else None
        why = why_not_again(runner)
        if layout is None and not why:
            reload = reloader(folder) if reloader else None
            layout = find_layout(runner.model, loader_of(runner), sources, reload=reload)
            if file:
                file.write(layout)
    except LayoutError as error:
        lost = error
    except Exception as error:
        logger.exception("bridge readback: the layout could not be found out")
        why = f"the layout could not be found out ({type(error).__name__}: {error})"
    agreement, agreed = (None, "") if alone else _agree(layout, sources)
    if lost:
        raise lost
    found = layout or Layout(derived={"all": why})
    known = Known.of(runner.model, found, sources, agreement, agreed)
    if getattr(runner, "is_draft_worker", False):
        known.target = MODELS.target
    _get_ready(known, runner.model)
    logger.info("bridge readback: %d HF tensors, %s", len(sources), known)
    return known


def _agree(layout: Layout | None, sources: list[Source]) -> tuple[Agreement | None, str]:
    try:
        return world.agree_with_others(layout, sources)
    except Exception:  # tensor by tensor, everything can be told all the same
        logger.exception("bridge readback: the ranks could not agree on who holds what")
        return None, ""


def _get_ready(known: Known, model: nn.Module) -> None:
    """Do once, before there is traffic, what the first request would wait for: tables, and kernels that are compiled."""
    try:
        held = known.held(model)
        digests = known.digests_for(Sent.of({source.name: source.dtype for source in known.sources}), held)
        if digests:
            digests.run(held)
    except Exception:  # it will be said when it is asked for; the server can serve
        logger.exception("bridge readback: no digest of the layers")


def answer(original: Any, checker: Any, action: str, *args: Any, **kwargs: Any) -> Any:
    """Around ``WeightChecker.handle``: answers ``bridge.<action>:<json>``, leaves every other action to SGLang."""
    if not action.startswith(PREFIX):
        return original(checker, action, *args, **kwargs)
    name, _, arguments = action.removeprefix(PREFIX).partition(":")
    act = ACTIONS.get(name)
    if act is None:
        raise ValueError(f"Unsupported action={action!r}: this plugin answers {', '.join(ACTIONS)}")
    asked = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    role = kwargs.get("role", "target")
    # Before SGLang 0.5.21 a checker has no role, and none is asked for.
    placement = checker._parallelism_info(**({"role": role} if "role" in kwargs else {})).model_dump()
    request = asked.pop("request", "")
    told = msgspec.structs.replace(
        act(checker._get_model(), **asked), role=role, stages=placement.get("pp_size", 1)
    )
    reply = msgspec.json.encode(told).decode()
    if placement.get("pp_rank") and request and role == "target":
        world.leave_for_first_stage(request, placement["rank"], reply)
    return {
        "checksums": {"bridge": reply},
        "per_gpu_checksum": hashlib.sha256(reply.encode()).hexdigest(),
        "parallelism_info": placement,
    }
