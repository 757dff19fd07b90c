# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""One tile of 32-bit words of a block: lanes and statistics in one pass."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.exact import exact_statistics
from bridge_plugins.fingerprint.cuda.fast import count_fields, largest_number, observe_words, sum_of_squares
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.keys import COL_0, COL_1, ROW_0, ROW_1, key
from bridge_plugins.fingerprint.cuda.load import load_words
from bridge_plugins.fingerprint.cuda.record import store_lanes, store_statistics


@kernel()
def words_tile(
    address: tl.tensor,  # int64: of the tile's first word
    row_bytes: tl.tensor,  # int64: from row to row
    col_bytes: tl.tensor,  # int64: from element to element
    rows: tl.tensor,  # int64: of the block, from the tile on
    cols: tl.tensor,  # int64: elements of a row of the block, from the tile on
    tile_rows: tl.tensor,
    first_row: tl.tensor,  # int64: the tile's place in the whole tensor
    row_stride: tl.tensor,  # int64
    first_word: tl.tensor,  # int64
    key_table: tl.tensor,  # pointer to int64: both lanes' row keys, low half lane 0; read if KEY_TABLE
    record: tl.tensor,  # pointer to int64
    FORMAT: tl.constexpr,  # a Reading
    WALK: tl.constexpr,
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
) -> None:
    """Lanes of a tile, stored; its statistics too."""
    RB: tl.constexpr = WALK.step
    BW: tl.constexpr = WALK.cols
    BITS: tl.constexpr = FORMAT.bits
    N: tl.constexpr = BW * 32 // BITS  # elements
    if WALK.flat:
        cols = tl.minimum(cols, tile_rows * N).to(tl.int32)
        rows = tl.cdiv(cols, N)
    else:
        cols = tl.minimum(cols, N).to(tl.int32)
        rows = tl.minimum(rows, tile_rows).to(tl.int32)
    # A number of bytes that isn't one of loads is that of a single row.
    row_step = (row_bytes // WALK.load).to(tl.int32)
    col_step = 1
    if WALK.across:
        row_step, col_step = 1, (col_bytes // WALK.load).to(tl.int32)
    if WALK.flat:
        row_step = BW * 4 // WALK.load
    if WALK.load == 4:
        corner, loads = address.to(tl.pointer_type(tl.uint32)), cols * BITS // 32
    elif WALK.load == 2:
        corner, loads = address.to(tl.pointer_type(tl.uint16)), cols
    else:
        corner, loads = address.to(tl.pointer_type(tl.uint8)), cols
    ALIGN: tl.constexpr = WALK.align
    if ALIGN > 1:
        # Without being told, the compiler loads 4 bytes at a time.
        corner, loads = tl.multiple_of(corner, 4 * ALIGN), tl.multiple_of(loads, ALIGN)
        PER_LOAD: tl.constexpr = ALIGN * 32 // BITS
        cols = tl.multiple_of(cols, PER_LOAD)
        if not WALK.flat:
            row_step = tl.multiple_of(row_step, ALIGN)

    INTEGERS: tl.constexpr = FORMAT.kind == "SIGNED" or FORMAT.kind == "UNSIGNED"
    FAST: tl.constexpr = STATISTICS and (
        (BITS <= 32 and (FORMAT.kind == "IEEE" or FORMAT.kind == "FN")) or (BITS == 8 and INTEGERS)
    )
    lane_0 = tl.zeros((RB, BW), tl.uint64)
    lane_1 = tl.zeros((RB, BW), tl.uint64)
    largest = tl.zeros((RB, BW), tl.uint32)
    squares = tl.zeros((RB, BW), tl.uint32 if INTEGERS else tl.float32)
    others = tl.zeros((RB, BW), tl.uint32)
    # Unrolled: several loads under way for one set of accumulators.
    for start in tl.range(0, rows, RB, loop_unroll_factor=WALK.unroll):
        row = start + tl.arange(0, RB)
        w = load_words(corner, row, rows, loads, row_step, col_step, BITS, WALK)
        if WALK.flat:
            place = first_word + (row[:, None] * BW + tl.arange(0, BW)[None, :])
            key_0, key_1 = key(place, COL_0), key(place, COL_1)
        else:
            place = first_row + row * row_stride
            if KEY_TABLE:
                both = tl.load(key_table + place, mask=row < rows, other=0).to(tl.uint64, bitcast=True)
                key_0, key_1 = (both & 0xFFFFFFFF)[:, None], (both >> 32)[:, None]
            else:
                key_0, key_1 = key(place, ROW_0)[:, None], key(place, ROW_1)[:, None]
        lane_0 += w.to(tl.uint64) * key_0
        lane_1 += w.to(tl.uint64) * key_1
        if FAST:
            largest, squares, others = observe_words(w, largest, squares, others, FORMAT)
    if WALK.flat:
        sum_0 = tl.sum(tl.sum(lane_0, 0), 0) * key(first_row, ROW_0)
        sum_1 = tl.sum(tl.sum(lane_1, 0), 0) * key(first_row, ROW_1)
    else:
        word = first_word + tl.arange(0, BW)
        sum_0 = tl.sum(tl.sum(lane_0, 0) * key(word, COL_0), 0)
        sum_1 = tl.sum(tl.sum(lane_1, 0) * key(word, COL_1), 0)
    store_lanes(record, sum_0, sum_1, 0)
    if STATISTICS:
        sound = False
        if FAST:
            most, total = largest_number(largest, FORMAT), sum_of_squares(squares, FORMAT)
            # Squares of others vanish or overflow.
            sound = (total == total) & ((most == 0) | ((most > 2.0**-40) & (most < 2.0**50)))
            if sound:
                there = cols if WALK.flat else rows * cols
                store_statistics(record, most, total, there - count_fields(others, BITS), 0, 0)
        if not sound:
            row_step = row_step * (WALK.load * 8) // BITS
            exact_statistics(corner, rows, cols, row_step, col_step, record, FORMAT, WALK)
