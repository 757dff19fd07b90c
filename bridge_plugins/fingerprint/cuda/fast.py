# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Statistics of words in float32: of weights as they mostly are."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel


@kernel()
def observe_words(
    w: tl.tensor, largest: tl.tensor, squares: tl.tensor, others: tl.tensor, FORMAT: tl.constexpr
) -> tl.tensor:
    """Take words, uint32, into accumulators: float32, float32, and uint32 with a counter in each field.

    The counters are of elements other than zero. Elements are floats with a sign, or 8-bit integers.
    """
    BITS: tl.constexpr = FORMAT.bits
    BYTES: tl.constexpr = FORMAT.kind == "SIGNED" or FORMAT.kind == "UNSIGNED"
    ONES: tl.constexpr = 0xFFFFFFFF // ((1 << BITS) - 1)
    SIGNS: tl.constexpr = ONES << (BITS - 1)
    # Numbers are read from their magnitude's bits, moved to where float32 has its exponent, times SCALE.
    SCALE: tl.constexpr = 2.0 ** (127 - FORMAT.bias)
    OFFSET: tl.constexpr = 0x80 if FORMAT.kind == "SIGNED" else 0
    # A magnitude plus the largest one sets the field's sign bit, but for zero.
    magnitudes = w & (SIGNS ^ 0xFFFFFFFF)
    carried = magnitudes + (SIGNS - ONES)
    if BYTES:
        carried |= w
    others += (carried >> (BITS - 1)) & ONES
    for i in tl.static_range(32 // BITS):
        if BYTES:
            byte = (w >> (8 * i)) & 0xFF
            bits = (byte ^ OFFSET) | 0x4B000000  # 2^23 + byte + OFFSET, as float32
        elif BITS == 16 and FORMAT.mantissa == 7 and i == 1:
            bits = w & 0xFFFF0000  # one instruction less for bfloat16, whose sign is squared away
        elif BITS == 16 and FORMAT.mantissa == 7:
            bits = w << 16
        else:
            bits = ((magnitudes >> (i * BITS)) & ((1 << (BITS - 1)) - 1)) << (23 - FORMAT.mantissa)
        x = bits.to(tl.float32, bitcast=True)
        if BYTES:
            x -= 8388608.0 + OFFSET
        elif SCALE != 1.0:
            x = x * SCALE
        largest = tl.maximum(largest, tl.abs(x))
        squares += x * x
    return largest, squares, others


@kernel()
def count_fields(others: tl.tensor, BITS: tl.constexpr) -> tl.tensor:
    """The sum of all counters of `observe_words`."""
    total = (others & ((1 << BITS) - 1)).to(tl.int32)
    for i in tl.static_range(1, 32 // BITS):
        total += ((others >> (i * BITS)) & ((1 << BITS) - 1)).to(tl.int32)
    return tl.sum(tl.sum(total, 1), 0)
