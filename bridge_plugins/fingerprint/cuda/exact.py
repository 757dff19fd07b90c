# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Statistics of a tile in float64: of integers, and of floats among which are NaN, Inf or very large ones."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.decode import number, observe
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.load import inside
from bridge_plugins.fingerprint.cuda.record import store_observed


@kernel()
def exact_statistics(
    corner: tl.tensor,  # pointer: to the tile's first element
    rows: tl.tensor,
    cols: tl.tensor,  # elements of a row
    row_step: tl.tensor,  # int32, in elements
    col_step: tl.tensor,
    record: tl.tensor,
    FORMAT: tl.constexpr,
    WALK: tl.constexpr,
) -> None:
    """Element by element, stored."""
    BITS: tl.constexpr = FORMAT.bits
    if BITS == 8:
        corner = corner.to(tl.pointer_type(tl.uint8))
    elif BITS == 16:
        corner = corner.to(tl.pointer_type(tl.uint16))
    elif BITS == 64:
        corner = corner.to(tl.pointer_type(tl.uint64))
    N: tl.constexpr = WALK.cols * 32 // BITS
    # Fewer elements at a time than the fast loop: registers that this seldom loop needs would slow that one down.
    STEP: tl.constexpr = WALK.step * BITS // 64 if WALK.step * BITS > 64 else 1
    M: tl.constexpr = 128 if N > 128 else N
    absmax = tl.zeros((STEP, M), tl.float64)
    squares = tl.zeros((STEP, M), tl.float64)
    zeros = tl.zeros((STEP, M), tl.int32)
    nans = tl.zeros((STEP, M), tl.int32)
    infs = tl.zeros((STEP, M), tl.int32)
    for start in range(0, rows, STEP):
        row = start + tl.arange(0, STEP)
        for first in range(0, N, M):
            col = first + tl.arange(0, M)
            there = inside(row, col, rows, cols, N, WALK.flat)
            bits = tl.load(corner + row[:, None] * row_step + (col * col_step)[None, :], mask=there, other=0)
            x = number(bits, FORMAT)
            absmax, squares, zeros, nans, infs = observe(x, there, absmax, squares, zeros, nans, infs)
    store_observed(record, absmax, squares, zeros, nans, infs)
