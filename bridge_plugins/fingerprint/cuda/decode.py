# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""What the bits of elements stand for, inside a kernel."""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl


@triton.jit
def number(
    bits: Any, BITS: tl.constexpr, KIND: tl.constexpr, MANTISSA: tl.constexpr, BIAS: tl.constexpr
) -> Any:
    """float64 of unsigned integers of BITS bits in the format (KIND, MANTISSA, BIAS); see `formats.Kind`."""
    if KIND == "UNSIGNED":
        return bits.to(tl.float64)
    if KIND == "SIGNED":
        if BITS == 64:
            return bits.to(tl.int64, bitcast=True).to(tl.float64)
        if BITS == 32:
            return bits.to(tl.int32, bitcast=True).to(tl.float64)
        if BITS == 16:
            return bits.to(tl.int16, bitcast=True).to(tl.float64)
        return bits.to(tl.int8, bitcast=True).to(tl.float64)
    if BITS == 64:
        return bits.to(tl.float64, bitcast=True)
    if BITS == 32:
        return bits.to(tl.float32, bitcast=True).to(tl.float64)
    wide = bits.to(tl.uint64)
    if KIND == "EXPONENT":
        return tl.where(wide == 0xFF, float("nan"), ((wide + 1023 - BIAS) << 52).to(tl.float64, bitcast=True))
    # The magnitude's bits, moved to where float64 has its exponent, are the number times 2^(BIAS - 1023). That
    # is subnormal or small for all of these formats, so the scale goes in as two exact steps of one product.
    SIGN: tl.constexpr = 1 << (BITS - 1)
    magnitude = wide & (SIGN - 1)
    x = (magnitude << (52 - MANTISSA)).to(tl.float64, bitcast=True) * (2.0 ** (1023 - BIAS))
    if KIND == "FN":
        return tl.where(magnitude == SIGN - 1, float("nan"), x)
    if KIND == "FNUZ":
        return tl.where(wide == SIGN, float("nan"), x)
    INF: tl.constexpr = (1 << (BITS - 1)) - (1 << MANTISSA)
    x = tl.where(magnitude == INF, float("inf"), x)
    return tl.where(magnitude > INF, float("nan"), x)


@triton.jit
def observe(x: Any, mask: Any, absmax: Any, squares: Any, zeros: Any, nans: Any, infs: Any) -> Any:
    """Take numbers, float64, where `mask` is, into accumulators of the same shape (float64 and int32)."""
    nan = mask & (x != x)
    size = tl.where(mask & (x == x), tl.abs(x), 0.0)
    inf = size == float("inf")
    size = tl.where(inf, 0.0, size)
    return (
        tl.maximum(absmax, size),
        squares + size * size,
        zeros + (mask & (x == 0)).to(tl.int32),
        nans + nan.to(tl.int32),
        infs + inf.to(tl.int32),
    )
