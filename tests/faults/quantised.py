"""A stream quantised as a framework does it for an fp8 engine: blocks of 128 by 128, one scale each."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit import Expected
    from tests.faults.streams import Stream

BLOCK = 128
LARGEST = 448.0  # of float8_e4m3fn


def quantised(stream: Stream) -> Stream:
    """Every projection as float8_e4m3fn, followed by its ``weight_scale_inv`` in float32."""
    made: Stream = []
    for name, tensor in stream:
        if not name.endswith("_proj.weight"):
            made.append((name, tensor))
            continue
        weight, scales = _blocks(tensor)
        made += [(name, weight), (f"{name}_scale_inv", scales)]
    return made


def _blocks(tensor: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    rows, columns = (-(-size // BLOCK) for size in tensor.shape)
    weight, scales = torch.empty(tensor.shape, dtype=torch.float8_e4m3fn), torch.empty(rows, columns)
    for row in range(rows):
        for column in range(columns):
            at = (slice(row * BLOCK, (row + 1) * BLOCK), slice(column * BLOCK, (column + 1) * BLOCK))
            scales[row, column] = tensor[at].float().abs().max() / LARGEST
            weight[at] = (tensor[at].float() / scales[row, column]).to(torch.float8_e4m3fn)
    return weight, scales


def expected_of(stream: Stream) -> Expected:
    """A checkpoint that is this stream."""
    from bridge_plugins.audit import Expected, Record
    from bridge_plugins.fingerprint import fingerprint
    from bridge_plugins.layout.sources import Source

    records = {name: Record.of(name, tuple(t.shape), t.nbytes, fingerprint(t)) for name, t in stream}
    sources = {name: Source(name, record.shape, record.dtype) for name, record in records.items()}
    return Expected("the fp8 checkpoint", sources, records)
