"""Readback, as it runs inside each of SGLang's model processes: the layout at start, fingerprints on request."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from bridge_plugins.errors import LayoutError
from bridge_plugins.fingerprint import Fingerprint, FingerprintTable, Part
from bridge_plugins.layout.probe import Block, Layout, find_layout
from bridge_plugins.layout.reachable import reachable
from bridge_plugins.layout.sources import read_sources

logger = logging.getLogger(__name__)

PREFIX = "bridge."


def probe_after_load(result: Any, runner: Any, *_: Any, **__: Any) -> Any:
    """After ``ModelRunner.load_model``: find out the layout, before there is traffic or a CUDA graph."""
    sources = read_sources(runner.model_config.model_path)
    layout = find_layout(runner.model, _loader(runner), sources)
    # Asked for by `_checker_layout` through the model, which the weight checker knows.
    runner.model._bridge_layout = layout
    logger.info("bridge readback: %d HF tensors in %d blocks", len(sources), len(layout.blocks))
    return result


def _loader(runner: Any) -> Any:
    """The engine's own path for an online update: begin (undo packing) → load → end (post-process)."""
    updater: Any = getattr(runner, "weight_updater", None)
    session = hasattr(updater, "begin_weight_update")

    def load(weights: Iterable[tuple[str, Tensor]]) -> None:
        if session:
            updater.begin_weight_update()
        runner.model.load_weights(weights)
        if session:
            updater.end_weight_update(run_post_load=False)

    return load


def answer(original: Any, checker: Any, action: str, *args: Any, **kwargs: Any) -> Any:
    """Around ``WeightChecker.handle``: answers ``bridge.<action>:<json>``, leaves every other action to SGLang."""
    if not action.startswith(PREFIX):
        return original(checker, action, *args, **kwargs)
    name, _, arguments = action.removeprefix(PREFIX).partition(":")
    if name != "readback":
        raise ValueError(f"Unsupported action={action!r}: this plugin answers bridge.readback")
    reply = json.dumps(readback(checker._get_model(), **json.loads(arguments or "{}")))
    placement = checker._parallelism_info(role=kwargs.get("role", "target"))
    return {
        "checksums": {"bridge": reply},
        "per_gpu_checksum": hashlib.sha256(reply.encode()).hexdigest(),
        "parallelism_info": placement.model_dump(),
    }


def readback(model: torch.nn.Module) -> dict[str, Any]:
    """What this process holds of each HF tensor: fingerprints of its blocks, computed from the served tensors.

    Returns:
        ``rank`` and ``world``; ``tensors``: HF name → for each copy that this process holds (one, as a rule) the
        places (``boxes``: size, offset and stride, each rows and columns), their summed ``lanes``, and ``lossy``
        elements; ``untold``: HF name → why not compared.

    Raises:
        LayoutError: if the layout was not found out at start.
    """
    layout: Layout | None = getattr(model, "_bridge_layout", None)
    if layout is None:
        raise LayoutError("the layout is not known: start the server with BRIDGE_READBACK=1")
    copies: dict[str, list[list[Fingerprint]]] = {}
    for block, fingerprint in zip(layout.blocks, _fingerprints(model, layout), strict=True):
        _put(copies.setdefault(block.source.name, []), fingerprint)
    distributed = torch.distributed.is_initialized()
    return {
        "rank": torch.distributed.get_rank() if distributed else 0,
        "world": torch.distributed.get_world_size() if distributed else 1,
        "tensors": {
            name: [_record(sum(parts[1:], parts[0])) for parts in held] for name, held in copies.items()
        },
        "untold": layout.untold,
    }


def _put(copies: list[list[Fingerprint]], part: Fingerprint) -> None:
    """Add a part to the first copy that has not got its place. A second copy (an output layer that should be tied and
    isn't, say) is told on its own: it may be the stale one."""
    for copy in copies:
        if all(part.coverage.boxes != other.coverage.boxes for other in copy):
            copy.append(part)
            return
    copies.append([part])


def _fingerprints(model: Any, layout: Layout) -> list[Fingerprint]:
    """One pass over all blocks. The table is made once; a tensor that has moved since is found at its new address."""
    held = {h.path: h.tensor for h in reachable(model)}
    tensors = [held[block.path] for block in layout.blocks]
    if not hasattr(model, "_bridge_table"):
        parts = [Part(t, b.box, _stream_dtype(b, t)) for b, t in zip(layout.blocks, tensors, strict=True)]
        model._bridge_table = FingerprintTable(parts, statistics=False)
    table: FingerprintTable = model._bridge_table
    return table.run(tensors).read()


def _stream_dtype(block: Block, tensor: Tensor) -> torch.dtype | None:
    """Held wider than it was sent (a float32 router fed bfloat16): take the bits as they were sent."""
    sent: torch.dtype = getattr(torch, block.source.dtype)
    return None if tensor.dtype is sent else sent


def _record(fingerprint: Fingerprint) -> dict[str, Any]:
    boxes = [[*box.size, *box.offset, *box.stride] for box in fingerprint.coverage.boxes]
    return {
        "lanes": list(fingerprint.lanes),
        "boxes": boxes,
        "lossy": fingerprint.lossy,
        "dtype": fingerprint.dtype,
    }
