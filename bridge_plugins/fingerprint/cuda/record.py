"""Where a tile writes what it found: 48 bytes, a record of its own, so that nothing needs to be cleared.

Two lanes, int64; absmax and sum of squares, float64; zeros, NaN, Inf and lossy elements, int32.
"""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel

SIZE = tl.constexpr(6)  # int64


@kernel()
def store_lanes(record: tl.tensor, lane_0: tl.tensor, lane_1: tl.tensor, lossy: tl.tensor) -> None:
    """Lanes, uint64, and lossy elements, int32."""
    tl.store(record, lane_0.to(tl.int64, bitcast=True))
    tl.store(record + 1, lane_1.to(tl.int64, bitcast=True))
    tl.store(record.to(tl.pointer_type(tl.int32)) + 11, lossy)


@kernel()
def store_statistics(
    record: tl.tensor,
    absmax: tl.tensor,
    squares: tl.tensor,
    zeros: tl.tensor,
    nans: tl.tensor,
    infs: tl.tensor,
) -> None:
    """Statistics of finite elements, and counts."""
    floats = record.to(tl.pointer_type(tl.float64))
    tl.store(floats + 2, absmax.to(tl.float64))
    tl.store(floats + 3, squares.to(tl.float64))
    counts = record.to(tl.pointer_type(tl.int32))
    tl.store(counts + 8, zeros)
    tl.store(counts + 9, nans)
    tl.store(counts + 10, infs)


@kernel()
def store_observed(
    record: tl.tensor,
    absmax: tl.tensor,
    squares: tl.tensor,
    zeros: tl.tensor,
    nans: tl.tensor,
    infs: tl.tensor,
) -> None:
    """Statistics that lie in accumulators of two dimensions, see `decode.observe`."""
    store_statistics(
        record,
        tl.max(tl.max(absmax, 1), 0),
        tl.sum(tl.sum(squares, 1), 0),
        tl.sum(tl.sum(zeros, 1), 0),
        tl.sum(tl.sum(nans, 1), 0),
        tl.sum(tl.sum(infs, 1), 0),
    )
