# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""The sum over each block's tiles.

A tile writes what it found to a record of its own, and this adds a block's records in order: no atomic, nothing
to clear, and a sum of squares that repeats bit for bit.
"""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.record import SIZE


@kernel()
def add_tiles(
    ranges: tl.tensor,  # int64, blocks × 2: first tile, one past the last
    records: tl.tensor,  # of tiles
    sums: tl.tensor,  # int64, blocks × 8: lanes, absmax and sum of squares as float64, counts
    STATISTICS: tl.constexpr,
    N: tl.constexpr,
) -> None:
    """One program per block: its tiles' records, added N at a time."""
    block = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ranges + 2 * block), tl.load(ranges + 2 * block + 1)
    floats, counts = records.to(tl.pointer_type(tl.float64)), records.to(tl.pointer_type(tl.int32))
    lane_0 = tl.zeros((N,), tl.int64)
    lane_1 = tl.zeros((N,), tl.int64)
    absmax = tl.zeros((N,), tl.float64)
    squares = tl.zeros((N,), tl.float64)
    zeros = tl.zeros((N,), tl.int64)
    nans = tl.zeros((N,), tl.int64)
    infs = tl.zeros((N,), tl.int64)
    lossy = tl.zeros((N,), tl.int64)
    for start in range(first, end, N):
        at = start + tl.arange(0, N)
        mask = at < end
        lane_0 += tl.load(records + SIZE * at, mask=mask, other=0)
        lane_1 += tl.load(records + SIZE * at + 1, mask=mask, other=0)
        lossy += tl.load(counts + 2 * SIZE * at + 11, mask=mask, other=0)
        if STATISTICS:
            absmax = tl.maximum(absmax, tl.load(floats + SIZE * at + 2, mask=mask, other=0.0))
            squares += tl.load(floats + SIZE * at + 3, mask=mask, other=0.0)
            zeros += tl.load(counts + 2 * SIZE * at + 8, mask=mask, other=0)
            nans += tl.load(counts + 2 * SIZE * at + 9, mask=mask, other=0)
            infs += tl.load(counts + 2 * SIZE * at + 10, mask=mask, other=0)
    out = sums + 8 * block
    tl.store(out, tl.sum(lane_0, 0))
    tl.store(out + 1, tl.sum(lane_1, 0))
    tl.store(out.to(tl.pointer_type(tl.float64)) + 2, tl.max(absmax, 0))
    tl.store(out.to(tl.pointer_type(tl.float64)) + 3, tl.sum(squares, 0))
    tl.store(out + 4, tl.sum(zeros, 0))
    tl.store(out + 5, tl.sum(nans, 0))
    tl.store(out + 6, tl.sum(infs, 0))
    tl.store(out + 7, tl.sum(lossy, 0))
