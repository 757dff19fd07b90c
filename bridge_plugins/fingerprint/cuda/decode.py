# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""What the bits of elements stand for, inside a kernel."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel


@kernel()
def number(bits: tl.tensor, FORMAT: tl.constexpr) -> tl.tensor:
    """float64 of the bits of elements, as unsigned integers, in a format; see `formats.Kind`."""
    BITS: tl.constexpr = FORMAT.bits
    KIND: tl.constexpr = FORMAT.kind
    MANTISSA: tl.constexpr = FORMAT.mantissa
    BIAS: tl.constexpr = FORMAT.bias
    if KIND == "UNSIGNED":
        x = bits.to(tl.float64)
    elif KIND == "SIGNED":
        # Moved to the top of 64 bits and back, the sign fills what is above the element.
        x = ((bits.to(tl.uint64) << (64 - BITS)).to(tl.int64, bitcast=True) >> (64 - BITS)).to(tl.float64)
    elif BITS == 64:
        x = bits.to(tl.float64, bitcast=True)
    elif BITS == 32:
        x = bits.to(tl.float32, bitcast=True).to(tl.float64)
    elif KIND == "EXPONENT":
        x = ((bits.to(tl.uint64) + (1023 - BIAS)) << 52).to(tl.float64, bitcast=True)
        x = tl.where(bits == 0xFF, float("nan"), x)
    else:
        # The magnitude's bits, moved to where float64 has its exponent, are the number times 2^(BIAS - 1023).
        SIGN: tl.constexpr = 1 << (BITS - 1)
        magnitude = bits.to(tl.uint64) & (SIGN - 1)
        x = (magnitude << (52 - MANTISSA)).to(tl.float64, bitcast=True) * (2.0 ** (1023 - BIAS))
        if KIND == "FN":
            x = tl.where(magnitude == SIGN - 1, float("nan"), x)
        elif KIND == "FNUZ":
            x = tl.where(bits == SIGN, float("nan"), x)
        else:
            INF: tl.constexpr = SIGN - (1 << MANTISSA)
            x = tl.where(magnitude == INF, float("inf"), x)
            x = tl.where(magnitude > INF, float("nan"), x)
    return x


@kernel()
def observe(
    x: tl.tensor,
    mask: tl.tensor,
    absmax: tl.tensor,
    squares: tl.tensor,
    zeros: tl.tensor,
    nans: tl.tensor,
    infs: tl.tensor,
) -> tl.tensor:
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
