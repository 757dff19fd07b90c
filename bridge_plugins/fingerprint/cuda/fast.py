# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Statistics of words in 32-bit numbers: of weights as they mostly are."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.decode import number
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.ptx import add_squares_of_bytes, four_e4m3, larger_halves


@kernel()
def observe_words(
    w: tl.tensor, largest: tl.tensor, squares: tl.tensor, others: tl.tensor, FORMAT: tl.constexpr
) -> tl.tensor:
    """Take words, uint32, into accumulators: see `largest_number` and `sum_of_squares`; and `count_fields`.

    Elements are floats with a sign, or 8-bit integers.
    """
    BITS: tl.constexpr = FORMAT.bits
    BYTES: tl.constexpr = FORMAT.kind == "SIGNED" or FORMAT.kind == "UNSIGNED"
    ONES: tl.constexpr = 0xFFFFFFFF // ((1 << BITS) - 1)
    SIGNS: tl.constexpr = ONES << (BITS - 1)
    # Fields that order as the elements' sizes do.
    if FORMAT.kind == "UNSIGNED":
        sizes = w
    elif FORMAT.kind == "SIGNED":
        sizes = ((w << 1) & 0xFEFEFEFE) ^ (((w >> 7) & ONES) * 0xFF)  # 0, -1, 1, -2, … as 0, 1, 2, 3, …
    else:
        sizes = w & (SIGNS ^ 0xFFFFFFFF)
    # Plus the largest one without a sign, a field's sign bit is set, but for zero.
    carried = (sizes & (SIGNS ^ 0xFFFFFFFF)) + (SIGNS - ONES)
    if BYTES:
        carried |= sizes
    others += (carried >> (BITS - 1)) & ONES
    if FORMAT.ptx and BITS == 8:
        largest = larger_halves(larger_halves(largest, sizes), sizes << 8)
    else:
        for i in tl.static_range(32 // BITS):
            # Of the fields below the highest nothing is asked: they only follow where the highest are equal.
            largest = tl.maximum(largest, sizes << (BITS * i))
    return largest, add_squares(w, sizes, squares, FORMAT), others


@kernel()
def add_squares(w: tl.tensor, sizes: tl.tensor, squares: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """Add the squares of each word's elements; `sizes`: the words without signs, of floats."""
    BITS: tl.constexpr = FORMAT.bits
    BYTES: tl.constexpr = FORMAT.kind == "SIGNED" or FORMAT.kind == "UNSIGNED"
    if BYTES and FORMAT.ptx:
        squares = add_squares_of_bytes(w, squares, FORMAT.kind == "SIGNED")
    elif BYTES:
        for i in tl.static_range(4):
            byte = (w >> (8 * i)) & 0xFF
            if FORMAT.kind == "SIGNED":
                byte = (byte ^ 0x80) - 0x80
            squares += byte * byte
    elif BITS == 32:
        x = w.to(tl.float32, bitcast=True)
        squares += x * x
    elif FORMAT.mantissa == 7:
        x, y = (sizes << 16).to(tl.float32, bitcast=True), (w & 0xFFFF0000).to(tl.float32, bitcast=True)
        squares += x * x
        squares += y * y
    elif FORMAT.ptx and FORMAT.mantissa == 3:
        a, b, c, d = four_e4m3(w)
        squares += a * a
        squares += b * b
        squares += c * c
        squares += d * d
    else:
        # Moved to where float16 has its exponent: the number, or a fixed power of two of it.
        for i in tl.static_range(16 // BITS):
            halves = sizes if BITS == 16 else (sizes >> (8 * i)) & 0x007F007F
            halves = halves << (10 - FORMAT.mantissa)
            for j in tl.static_range(2):
                x = (halves >> (16 * j)).to(tl.uint16).to(tl.float16, bitcast=True).to(tl.float32)
                squares += x * x
    return squares


@kernel()
def largest_number(largest: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """float64 of the largest size, whose bits are the highest of uint32: NaN and Inf are larger than numbers."""
    if FORMAT.ptx and FORMAT.bits == 8:
        largest = tl.maximum(largest, largest << 16)
    bits = tl.max(tl.max(largest, 1), 0) >> (32 - FORMAT.bits)
    return ((bits + 1) >> 1).to(tl.float64) if FORMAT.kind == "SIGNED" else number(bits, FORMAT)


@kernel()
def sum_of_squares(squares: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """Of float32 accumulators, or of uint32 ones if elements are integers."""
    if FORMAT.kind == "SIGNED" or FORMAT.kind == "UNSIGNED":
        total = tl.sum(tl.sum(squares.to(tl.float64), 1), 0)
    else:
        SCALE: tl.constexpr = 4.0 ** (15 - FORMAT.bias) if FORMAT.bits == 8 and not FORMAT.ptx else 1.0
        total = tl.sum(tl.sum(squares, 1), 0) * SCALE
    return total


@kernel()
def count_fields(others: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """The sum of counters that lie side by side in each uint32: of elements that aren't zero."""
    total = (others & ((1 << BITS) - 1)).to(tl.int32)
    for i in tl.static_range(1, 32 // BITS):
        total += ((others >> (i * BITS)) & ((1 << BITS) - 1)).to(tl.int32)
    return tl.sum(tl.sum(total, 1), 0)
