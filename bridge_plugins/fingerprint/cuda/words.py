# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""One tile of a block whose rows lie in memory as runs of 32-bit words: lanes and statistics in one pass."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.decode import number, observe
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.keys import COL_0, COL_1, ROW_0, ROW_1, key


@kernel()
def words_tile(
    corner: tl.tensor,  # pointer to uint32: the tile's first word
    row_words: tl.tensor,  # int32: from row to row
    rows: tl.tensor,  # int32: of the tile
    words: tl.tensor,  # int32: of the tile's rows; the tile takes BW of them at most
    first_row: tl.tensor,  # int64: the tile's place in the whole tensor
    row_stride: tl.tensor,  # int64
    first_word: tl.tensor,  # int64
    key_table: tl.tensor,  # pointer to int64: both lanes' row keys, low half lane 0; read if KEY_TABLE
    lanes: tl.tensor,  # pointer to int64: this tile's two lanes
    floats: tl.tensor,  # pointer to float64: absmax, sum of squares
    counts: tl.tensor,  # pointer to int32: zeros, NaN, Inf, lossy
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    LIMIT: tl.constexpr,  # see `variant.limit`
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
    RB: tl.constexpr,  # rows at a time
    UNROLL: tl.constexpr,
    BW: tl.constexpr,  # words of a row
) -> None:
    """Lanes of a tile, stored; its statistics too."""
    # Numbers are read from their magnitude's bits, moved to where float32 has its exponent, times SCALE.
    FLOATS: tl.constexpr = BITS <= 32 and (KIND == "IEEE" or KIND == "FN")
    BYTES: tl.constexpr = BITS == 8 and (KIND == "SIGNED" or KIND == "UNSIGNED")
    FAST: tl.constexpr = STATISTICS and (FLOATS or BYTES)
    PER_WORD: tl.constexpr = 32 // BITS if BITS <= 32 else 1
    MAGNITUDE: tl.constexpr = (1 << (BITS - 1)) - 1 if BITS <= 32 else 0
    ONES: tl.constexpr = 0xFFFFFFFF // ((1 << BITS) - 1) if BITS <= 32 else 0
    SIGNS: tl.constexpr = ONES << (BITS - 1) if BITS <= 32 else 0
    SCALE: tl.constexpr = 2.0 ** (127 - BIAS)
    OFFSET: tl.constexpr = 0x80 if KIND == "SIGNED" else 0

    cols = tl.arange(0, BW)
    lane_0 = tl.zeros((RB, BW), tl.uint64)
    lane_1 = tl.zeros((RB, BW), tl.uint64)
    largest = tl.zeros((RB, BW), tl.float32)
    squares = tl.zeros((RB, BW), tl.float32)
    others = tl.zeros((RB, BW), tl.uint32)  # elements other than zero, counted in each element's field
    # Unrolled: several loads under way for one set of accumulators.
    for start in tl.range(0, rows, RB, loop_unroll_factor=UNROLL):
        row = start + tl.arange(0, RB)
        mask = (row < rows)[:, None] & (cols < words)[None, :]
        w = tl.load(
            corner + row[:, None] * row_words + cols[None, :],
            mask=mask,
            other=0,
            eviction_policy="evict_first",
        )
        place = first_row + row * row_stride
        if KEY_TABLE:
            both = tl.load(key_table + place, mask=row < rows, other=0).to(tl.uint64, bitcast=True)
            key_0, key_1 = both & 0xFFFFFFFF, both >> 32
        else:
            key_0, key_1 = key(place, ROW_0), key(place, ROW_1)
        lane_0 += w.to(tl.uint64) * key_0[:, None]
        lane_1 += w.to(tl.uint64) * key_1[:, None]
        if FAST:
            # A magnitude plus the largest one sets the field's sign bit, but for zero.
            magnitudes = w & (SIGNS ^ 0xFFFFFFFF)
            carried = magnitudes + (SIGNS - ONES)
            if BYTES:
                carried |= w
            others += (carried >> (BITS - 1)) & ONES
            for i in tl.static_range(PER_WORD):
                if BYTES:
                    byte = (w >> (8 * i)) & 0xFF
                    bits = (byte ^ OFFSET) | 0x4B000000  # 2^23 + byte + OFFSET, as float32
                elif BITS == 16 and MANTISSA == 7 and i == 1:
                    bits = w & 0xFFFF0000  # one instruction less for bfloat16, whose sign is squared away
                elif BITS == 16 and MANTISSA == 7:
                    bits = w << 16
                else:
                    bits = ((magnitudes >> (i * BITS)) & MAGNITUDE) << (23 - MANTISSA)
                x = bits.to(tl.float32, bitcast=True)
                if BYTES:
                    x -= 8388608.0 + OFFSET
                elif SCALE != 1.0:
                    x = x * SCALE
                largest = tl.maximum(largest, tl.abs(x))
                squares += x * x
    word = first_word + cols
    tl.store(lanes, tl.sum(tl.sum(lane_0, 0) * key(word, COL_0), 0).to(tl.int64, bitcast=True))
    tl.store(lanes + 1, tl.sum(tl.sum(lane_1, 0) * key(word, COL_1), 0).to(tl.int64, bitcast=True))
    tl.store(counts + 3, 0)
    if STATISTICS:
        sound = False
        if FAST:
            most = tl.max(tl.max(largest, 1), 0)
            total = tl.sum(tl.sum(squares, 1), 0)
            # NaN and Inf read as numbers at or above the limit, or make the sum NaN. Smaller squares vanish.
            sound = (total == total) & ((most == 0) | ((most > 2.0**-40) & (most < LIMIT)))
            if sound:
                other = tl.zeros((RB, BW), tl.uint32)
                for i in tl.static_range(PER_WORD):
                    other += (others >> (i * BITS)) & ((1 << BITS) - 1)
                there = rows * tl.minimum(words, BW) * PER_WORD
                tl.store(floats, most.to(tl.float64))
                tl.store(floats + 1, total.to(tl.float64))
                tl.store(counts, there - tl.sum(tl.sum(other.to(tl.int32), 1), 0))
                tl.store(counts + 1, 0)
                tl.store(counts + 2, 0)
        if not sound:
            exact_statistics(
                corner, row_words, rows, words, floats, counts, BITS, KIND, MANTISSA, BIAS, RB, BW
            )


@kernel()
def exact_statistics(
    corner: tl.tensor,
    row_words: tl.tensor,
    rows: tl.tensor,
    words: tl.tensor,
    floats: tl.tensor,
    counts: tl.tensor,
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    RB: tl.constexpr,
    BW: tl.constexpr,
) -> None:
    """Statistics of a tile element by element in float64: of integers, and of floats that hold NaN or Inf."""
    if BITS == 8:
        base = corner.to(tl.pointer_type(tl.uint8))
    elif BITS == 16:
        base = corner.to(tl.pointer_type(tl.uint16))
    elif BITS == 32:
        base = corner
    else:
        base = corner.to(tl.pointer_type(tl.uint64))
    N: tl.constexpr = BW * 32 // BITS
    # Fewer rows at a time than the fast loop: registers that this seldom loop needs would slow that one down.
    STEP: tl.constexpr = RB * BITS // 64 if RB * BITS > 64 else 1
    cols = tl.arange(0, N)
    absmax = tl.zeros((STEP, N), tl.float64)
    squares = tl.zeros((STEP, N), tl.float64)
    zeros = tl.zeros((STEP, N), tl.int32)
    nans = tl.zeros((STEP, N), tl.int32)
    infs = tl.zeros((STEP, N), tl.int32)
    for start in range(0, rows, STEP):
        row = start + tl.arange(0, STEP)
        mask = (row < rows)[:, None] & (cols < words * 4 // (BITS // 8))[None, :]
        bits = tl.load(
            base + row[:, None] * (row_words * 4 // (BITS // 8)) + cols[None, :], mask=mask, other=0
        )
        x = number(bits, BITS, KIND, MANTISSA, BIAS)
        absmax, squares, zeros, nans, infs = observe(x, mask, absmax, squares, zeros, nans, infs)
    tl.store(floats, tl.max(tl.max(absmax, 1), 0))
    tl.store(floats + 1, tl.sum(tl.sum(squares, 1), 0))
    tl.store(counts, tl.sum(tl.sum(zeros, 1), 0))
    tl.store(counts + 1, tl.sum(tl.sum(nans, 1), 0))
    tl.store(counts + 2, tl.sum(tl.sum(infs, 1), 0))
