"""What a model process of SGLang does when it is asked: layers first, records of some, and a probe while it runs."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import torch

from bridge_plugins.engines.sglang import world
from bridge_plugins.engines.sglang.answer import Answer, Layers, Stages
from bridge_plugins.engines.sglang.known import Known
from bridge_plugins.engines.sglang.models import MODELS
from bridge_plugins.engines.sglang.records import records_of
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.errors import LayoutError

logger = logging.getLogger(__name__)


def layers(model: torch.nn.Module, *, dtype: str = "", dtypes: dict[str, str] | None = None) -> Layers:
    """Two digests of each layer of what this process serves.

    Args:
        model: the served model, after `probe_after_load`.
        dtype: the stream's dtype, as torch spells it; empty for the checkpoint's.
        dtypes: HF name → dtype, for the tensors that the stream carries in another one.

    Raises:
        LayoutError: if the layout was not found out at start.
        EngineError: if a tensor is gone or has another shape since.
    """
    known = _known(model)
    held = known.held(model)
    rank, size = world.rank_and_size()
    table = known.digests_for(Sent(dtype, dtypes or {}), held)
    names, keys = (table.names, table.keys) if table and rank == 0 else ([], [])
    borrowed, _ = known.borrowed(model)
    return Layers(
        rank, size, known.agreed, table.run(held) if table else b"", known.compared, known.served - borrowed,
        untold=len(known.layout.untold), derived=len(_derived(known, model, held)), drafts=MODELS.drafts,
        names=names, keys=keys,
    )  # fmt: skip


def records(
    model: torch.nn.Module,
    *,
    layers: list[str] | None = None,
    dtype: str = "",
    dtypes: dict[str, str] | None = None,
) -> Answer:
    """What this process holds of each HF tensor of some `layers` (None: of all). For the rest see `layers`."""
    known = _known(model)
    held = known.held(model)
    tensors, untold = records_of(known.blocks, held, layers, Sent(dtype, dtypes or {}))
    rank, size = world.rank_and_size()
    return Answer(rank, size, tensors, known.layout.untold | untold, _derived(known, model, held))


def collect(_model: torch.nn.Module, *, of: str, ranks: list[int]) -> Stages:
    """What ranks of other pipeline stages answered to the request `of`; rank 0 tells it."""
    return Stages(world.left_by_others(of, ranks) if world.rank_and_size()[0] == 0 else {})


def probe(model: Any) -> Layers:
    """Find out the layout of a server that runs, with ``BRIDGE_READBACK=live``: nothing is served meanwhile.

    A server whose weights did not come back must not serve: it is ended, as SGLang ends one whose scheduler failed.
    """
    prepare = getattr(model, "_bridge_probe", None)
    if prepare is None:
        raise LayoutError("a layout is found out while the server runs only with BRIDGE_READBACK=live")
    try:
        model._bridge_known = prepare()
    except LayoutError:
        logger.critical(
            "bridge readback: the weights did not come back after a probe; the server ends", exc_info=True
        )
        os.kill(os.getppid(), signal.SIGQUIT)
        raise
    return layers(model)


ACTIONS: dict[str, Callable[..., Any]] = {
    "layers": layers,
    "records": records,
    "collect": collect,
    "probe": probe,
}


def _derived(known: Known, model: torch.nn.Module, held: dict[str, torch.Tensor]) -> dict[str, str]:
    return known.derived(held) | known.borrowed(model)[1]


def _known(model: Any) -> Known:
    known: Known | None = getattr(model, "_bridge_known", None)
    if known is None:
        raise LayoutError(
            "the layout is not known: start the server with BRIDGE_READBACK=1, or with BRIDGE_READBACK=live and "
            "ask for the action bridge.probe"
        )
    return known
