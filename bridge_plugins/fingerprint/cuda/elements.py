# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""One tile of a block of any strides, element by element; narrowing from float32 too."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.decode import number, observe
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.keys import COL_0, COL_1, ROW_0, ROW_1, key


@kernel()
def elements_tile(
    address: tl.tensor,  # int64: of the tile's first element
    row_bytes: tl.tensor,  # int64: from row to row
    col_bytes: tl.tensor,  # int64
    rows: tl.tensor,  # of the block, from the tile on
    cols: tl.tensor,
    first_row: tl.tensor,  # int64: the tile's place in the whole tensor
    row_stride: tl.tensor,
    first_col: tl.tensor,
    col_stride: tl.tensor,
    lanes: tl.tensor,  # pointers to this tile's outputs, as in `words`
    floats: tl.tensor,
    counts: tl.tensor,
    HELD: tl.constexpr,  # bits of an element in memory; 32 where BITS is 16 takes the upper half
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    STATISTICS: tl.constexpr,
    RB: tl.constexpr,
    CB: tl.constexpr,
) -> None:
    """Lanes, lossy elements and statistics of RB × CB elements, stored."""
    row, col = tl.arange(0, RB), tl.arange(0, CB)
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    at = address + row[:, None] * row_bytes + col[None, :] * col_bytes
    if HELD == 8:
        bits = tl.load(at.to(tl.pointer_type(tl.uint8)), mask=mask, other=0)
    elif HELD == 16:
        bits = tl.load(at.to(tl.pointer_type(tl.uint16)), mask=mask, other=0)
    elif HELD == 32:
        bits = tl.load(at.to(tl.pointer_type(tl.uint32)), mask=mask, other=0)
    else:
        bits = tl.load(at.to(tl.pointer_type(tl.uint64)), mask=mask, other=0)
    if HELD != BITS:
        lossy = mask & ((bits & 0xFFFF) != 0)
        tl.store(counts + 3, tl.sum(tl.sum(lossy.to(tl.int32), 1), 0))
        bits = (bits >> 16).to(tl.uint16)
    else:
        tl.store(counts + 3, 0)
    place = first_row + row * row_stride
    key_0, key_1 = key(place, ROW_0), key(place, ROW_1)
    column = first_col + col * col_stride
    u = bits.to(tl.uint64)
    if BITS == 64:
        low, high = u & 0xFFFFFFFF, u >> 32
        even, odd = 2 * column, 2 * column + 1
        lane_0 = low * key(even, COL_0)[None, :] + high * key(odd, COL_0)[None, :]
        lane_1 = low * key(even, COL_1)[None, :] + high * key(odd, COL_1)[None, :]
    else:
        PER_WORD: tl.constexpr = 32 // BITS
        shift = ((column % PER_WORD) * BITS).to(tl.uint64)
        word = column // PER_WORD
        lane_0 = u * (key(word, COL_0) << shift)[None, :]
        lane_1 = u * (key(word, COL_1) << shift)[None, :]
    tl.store(lanes, tl.sum(tl.sum(lane_0, 1) * key_0, 0).to(tl.int64, bitcast=True))
    tl.store(lanes + 1, tl.sum(tl.sum(lane_1, 1) * key_1, 0).to(tl.int64, bitcast=True))
    if STATISTICS:
        x = number(bits, BITS, KIND, MANTISSA, BIAS)
        none = tl.zeros((RB, CB), tl.int32)
        nothing = tl.zeros((RB, CB), tl.float64)
        absmax, squares, zeros, nans, infs = observe(x, mask, nothing, nothing, none, none, none)
        tl.store(floats, tl.max(tl.max(absmax, 1), 0))
        tl.store(floats + 1, tl.sum(tl.sum(squares, 1), 0))
        tl.store(counts, tl.sum(tl.sum(zeros, 1), 0))
        tl.store(counts + 1, tl.sum(tl.sum(nans, 1), 0))
        tl.store(counts + 2, tl.sum(tl.sum(infs, 1), 0))
