# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""One tile of a block of any strides, element by element; narrowing from float32 too."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.decode import number, observe
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.keys import COL_0, COL_1, ROW_0, ROW_1, key
from bridge_plugins.fingerprint.cuda.record import store_lanes, store_observed


@kernel()
def elements_tile(
    address: tl.tensor,  # int64: of the tile's first element
    row_bytes: tl.tensor,  # int64: from row to row
    col_bytes: tl.tensor,  # int64
    rows: tl.tensor,  # int32: of the tile
    cols: tl.tensor,  # of the block, from the tile on; the tile takes WALK.cols at most
    first_row: tl.tensor,  # int64: the tile's place in the whole tensor
    row_stride: tl.tensor,
    first_col: tl.tensor,
    col_stride: tl.tensor,
    record: tl.tensor,  # pointer to int64
    HELD: tl.constexpr,  # bits of an element in memory; 32 where the format has 16 takes the upper half
    FORMAT: tl.constexpr,  # a Reading
    WALK: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    """Lanes, lossy elements and statistics of a tile, stored."""
    BITS: tl.constexpr = FORMAT.bits
    RB: tl.constexpr = WALK.step
    CB: tl.constexpr = WALK.cols
    column = first_col + tl.arange(0, CB) * col_stride
    here = tl.arange(0, CB) < cols
    low_0 = tl.zeros((RB, CB), tl.uint64)
    low_1 = tl.zeros((RB, CB), tl.uint64)
    high_0 = tl.zeros((RB, CB), tl.uint64)  # of 64-bit elements; else unused, and not in the machine code
    high_1 = tl.zeros((RB, CB), tl.uint64)
    lossy = tl.zeros((RB, CB), tl.int32)
    absmax = tl.zeros((RB, CB), tl.float64)
    squares = tl.zeros((RB, CB), tl.float64)
    zeros = tl.zeros((RB, CB), tl.int32)
    nans = tl.zeros((RB, CB), tl.int32)
    infs = tl.zeros((RB, CB), tl.int32)
    for start in range(0, rows, RB):
        row = start + tl.arange(0, RB)
        mask = (row < rows)[:, None] & here[None, :]
        at = address + row[:, None] * row_bytes + tl.arange(0, CB)[None, :] * col_bytes
        if HELD == 8:
            bits = tl.load(at.to(tl.pointer_type(tl.uint8)), mask=mask, other=0)
        elif HELD == 16:
            bits = tl.load(at.to(tl.pointer_type(tl.uint16)), mask=mask, other=0)
        elif HELD == 32:
            bits = tl.load(at.to(tl.pointer_type(tl.uint32)), mask=mask, other=0)
        else:
            bits = tl.load(at.to(tl.pointer_type(tl.uint64)), mask=mask, other=0)
        if HELD != BITS:
            lossy += ((bits & 0xFFFF) != 0).to(tl.int32)
            bits = (bits >> 16).to(tl.uint16)
        place = first_row + row * row_stride
        key_0, key_1 = key(place, ROW_0)[:, None], key(place, ROW_1)[:, None]
        u = bits.to(tl.uint64)
        low_0 += (u & 0xFFFFFFFF) * key_0
        low_1 += (u & 0xFFFFFFFF) * key_1
        if BITS == 64:
            high_0 += (u >> 32) * key_0
            high_1 += (u >> 32) * key_1
        if STATISTICS:
            x = number(bits, FORMAT)
            absmax, squares, zeros, nans, infs = observe(x, mask, absmax, squares, zeros, nans, infs)
    if BITS == 64:
        lane_0 = tl.sum(low_0, 0) * key(2 * column, COL_0) + tl.sum(high_0, 0) * key(2 * column + 1, COL_0)
        lane_1 = tl.sum(low_1, 0) * key(2 * column, COL_1) + tl.sum(high_1, 0) * key(2 * column + 1, COL_1)
    else:
        PER_WORD: tl.constexpr = 32 // BITS
        shift = ((column % PER_WORD) * BITS).to(tl.uint64)
        lane_0 = tl.sum(low_0, 0) * (key(column // PER_WORD, COL_0) << shift)
        lane_1 = tl.sum(low_1, 0) * (key(column // PER_WORD, COL_1) << shift)
    store_lanes(record, tl.sum(lane_0, 0), tl.sum(lane_1, 0), tl.sum(tl.sum(lossy, 1), 0))
    if STATISTICS:
        store_observed(record, absmax, squares, zeros, nans, infs)
