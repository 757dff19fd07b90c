"""All that a rank holds of some layers, tensor by tensor: what is asked for where digests differ."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from bridge_plugins.audit.place import place_of
from bridge_plugins.engines.sglang.answer import Held
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.fingerprint import Fingerprint, fingerprint_many
from bridge_plugins.layout.probe import Block


def records_of(
    all_blocks: Sequence[Block], held: Mapping[str, Tensor], layers: Collection[str] | None, sent: Sent
) -> tuple[dict[str, tuple[Held, ...]], dict[str, str]]:
    """HF name → the parts of it that this rank holds; and HF name → why its bits can't be told, as they were sent.

    Args:
        all_blocks: this rank's.
        held: its tensors by path, as blocks see them.
        layers: whose tensors; None for all.
        sent: the dtypes of the stream.
    """
    untold: dict[str, str] = {}
    blocks, parts = [], []
    for block in all_blocks:
        name = block.source.name
        if layers is not None and place_of(name).layer not in layers:
            continue
        tensor = held[block.path]
        part = sent.part(block, tensor)
        if part is None:
            dtype = str(tensor.dtype).removeprefix("torch.")
            untold[name] = f"the engine holds {dtype} of {sent.dtype(block.source)}"
        else:
            blocks.append(block)
            parts.append(part)
    told: dict[str, list[Held]] = {}
    for block, fingerprint in zip(blocks, fingerprint_many(parts), strict=True):
        told.setdefault(block.source.name, []).append(_held(block, fingerprint))
    return {name: tuple(several) for name, several in told.items()}, untold


def _held(block: Block, part: Fingerprint) -> Held:
    facts = part.statistics
    assert facts is not None
    return Held(
        part.lanes, (*block.box.size, *block.box.offset, *block.box.stride), part.dtype, part.lossy,
        facts.absmax, facts.sum_of_squares, facts.zeros, facts.nonfinite, block.path,
    )  # fmt: skip
