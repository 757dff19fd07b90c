"""Readback, as it runs inside each of SGLang's model processes: the layout at start, fingerprints on request."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch import Tensor

from bridge_plugins.engines.sglang.answer import Answer, Held
from bridge_plugins.errors import EngineError, LayoutError
from bridge_plugins.fingerprint import Fingerprint, FingerprintTable, Part
from bridge_plugins.layout.probe import Block, Layout, find_layout
from bridge_plugins.layout.reachable import dense, reachable
from bridge_plugins.layout.sources import Source, read_sources

logger = logging.getLogger(__name__)

PREFIX = "bridge."


def probe_after_load(result: Any, runner: Any, *_: Any, **__: Any) -> Any:
    """After ``ModelRunner.load_model``: find out the layout, before there is traffic or a CUDA graph.

    A server whose layout can't be found out serves all the same, and says why when it is asked. Only one whose
    weights did not come back after the probe (`LayoutError`) must not.
    """
    sources: list[Source] = []
    try:
        sources = read_sources(_folder(runner.model_config.model_path))
        layout = find_layout(runner.model, _loader(runner), sources)
    except LayoutError:
        raise
    except Exception as error:
        logger.exception("bridge readback: the layout could not be found out")
        layout = Layout(
            derived={"all": f"the layout could not be found out ({type(error).__name__}: {error})"}
        )
    # Asked for through the model, which the weight checker knows.
    runner.model._bridge_layout = layout
    logger.info("bridge readback: %d HF tensors in %d blocks", len(sources), len(layout.blocks))
    return result


def _folder(model: str) -> str:
    """The checkpoint's folder: `model` itself, or what the Hugging Face cache holds under that name."""
    if Path(model).is_dir():
        return model
    from huggingface_hub import snapshot_download

    return str(snapshot_download(model, local_files_only=True))


def _loader(runner: Any) -> Callable[[Iterable[tuple[str, Tensor]]], None]:
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
    asked = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
    reply = msgspec.json.encode(readback(checker._get_model(), **asked)).decode()
    placement = checker._parallelism_info(role=kwargs.get("role", "target"))
    return {
        "checksums": {"bridge": reply},
        "per_gpu_checksum": hashlib.sha256(reply.encode()).hexdigest(),
        "parallelism_info": placement.model_dump(),
    }


def readback(model: torch.nn.Module, dtype: str = "", dtypes: dict[str, str] | None = None) -> Answer:
    """What this process holds of each HF tensor: fingerprints of its blocks, computed from the served tensors.

    Args:
        model: the served model, after `probe_after_load`.
        dtype: the stream's dtype, as torch spells it; empty for the checkpoint's.
        dtypes: HF name → dtype, for the tensors that the stream carries in another one.

    Raises:
        LayoutError: if the layout was not found out at start.
        EngineError: if a tensor is gone or has another shape since.
    """
    layout: Layout | None = getattr(model, "_bridge_layout", None)
    if layout is None:
        raise LayoutError("the layout is not known: start the server with BRIDGE_READBACK=1")
    held = {h.path: dense(h.tensor) for h in reachable(model)}
    if gone := [block.path for block in layout.blocks if block.path not in held]:
        raise EngineError(f"{gone[0]} was there when the layout was found out and is not any more")
    sent = {
        b.source.name: (dtypes or {}).get(b.source.name) or dtype or b.source.dtype for b in layout.blocks
    }
    untold = dict(layout.untold)
    copies: dict[str, list[list[Fingerprint]]] = {}
    blocks = []
    for block in layout.blocks:
        tensor, name = held[block.path], block.source.name
        if _holds(tensor.dtype, getattr(torch, sent[name])):
            blocks.append(block)
        else:
            untold[name] = f"the engine holds {str(tensor.dtype).removeprefix('torch.')} of {sent[name]}"
    for block, fingerprint in zip(blocks, _fingerprints(model, blocks, held, sent), strict=True):
        _put(copies.setdefault(block.source.name, []), fingerprint)
    distributed = torch.distributed.is_initialized()
    return Answer(
        rank=torch.distributed.get_rank() if distributed else 0,
        world=torch.distributed.get_world_size() if distributed else 1,
        tensors={
            name: tuple(_told(sum(parts[1:], parts[0])) for parts in held) for name, held in copies.items()
        },
        untold=untold,
        derived=layout.derived,
    )


def _holds(held: torch.dtype, sent: torch.dtype) -> bool:
    """Whether every value of `sent` can be held as `held`: then its bits can be told."""
    return held is sent or (held is torch.float32 and sent in (torch.bfloat16, torch.float16))


def _fingerprints(
    model: Any, blocks: list[Block], held: dict[str, Tensor], sent: dict[str, str]
) -> list[Fingerprint]:
    """One pass over all blocks. The table is kept; a tensor that has moved since is found at its new address."""
    tensors = [held[block.path] for block in blocks]
    known = getattr(model, "_bridge_table", None)
    if known is None or known[0] != sent:
        # Held wider than it was sent (a float32 router fed bfloat16): the bits are taken as they were sent.
        as_dtypes = [getattr(torch, sent[block.source.name]) for block in blocks]
        parts = [
            Part(tensor, block.box, None if tensor.dtype is as_dtype else as_dtype)
            for block, tensor, as_dtype in zip(blocks, tensors, as_dtypes, strict=True)
        ]
        known = model._bridge_table = (sent, FingerprintTable(parts, statistics=False))
    try:
        table: FingerprintTable = known[1]
        return table.run(tensors).read()
    except ValueError as error:
        raise EngineError(
            f"the engine's tensors are not what the layout was found out for: {error}"
        ) from error


def _put(copies: list[list[Fingerprint]], part: Fingerprint) -> None:
    """Add a part to the first copy that has not got its place. A second copy (an output layer that should be tied and
    isn't, say) is told on its own: it may be the stale one."""
    for copy in copies:
        if all(part.coverage.boxes != other.coverage.boxes for other in copy):
            copy.append(part)
            return
    copies.append([part])


def _told(fingerprint: Fingerprint) -> Held:
    boxes = tuple((*box.size, *box.offset, *box.stride) for box in fingerprint.coverage.boxes)
    return Held(fingerprint.lanes, boxes, fingerprint.dtype, fingerprint.lossy)
