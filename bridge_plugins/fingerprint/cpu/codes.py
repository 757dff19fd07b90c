"""What the CPU kernels need to know of a format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.cpu import statistics as s
from bridge_plugins.fingerprint.formats import Format, Kind

_CODES: Final = {
    "float64": s.FLOAT64,
    "float32": s.FLOAT32,
    "bfloat16": s.BFLOAT16,
    "float16": s.FLOAT16,
    "float8_e4m3fn": s.E4M3,
    "float8_e5m2": s.E5M2,
    "int64": s.SIGNED64,
    "int32": s.SIGNED32,
    "int8": s.SIGNED8,
    "uint64": s.UNSIGNED64,
    "uint32": s.UNSIGNED32,
    "uint8": s.UNSIGNED8,
    "bool": s.UNSIGNED8,
    "float4_e2m1fn_x2": s.UNSIGNED8,
}


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A format's reading, for `statistics`.

    Attributes:
        code: LOOKUP, FLOAT32, …
        lookup: 2^bits float64 for formats of 16 bits at most, else one entry that isn't read.
    """

    code: int
    lookup: NDArray[np.float64]


@cache
def code_of(taken: Format) -> Code:
    """The reading of a format."""
    lookup = _numbers(taken) if taken.bits <= 16 else np.zeros(1)
    return Code(_CODES.get(taken.name, s.LOOKUP), lookup)


def _numbers(taken: Format) -> NDArray[np.float64]:
    """The number that each pattern of a narrow format stands for."""
    bits = np.arange(1 << taken.bits)
    if taken.kind is Kind.UNSIGNED:
        return bits.astype(np.float64)
    sign = bits >> (taken.bits - 1)
    if taken.kind is Kind.SIGNED:
        return (bits - (sign << taken.bits)).astype(np.float64)
    if taken.kind is Kind.EXPONENT:
        return np.where(bits == bits[-1], np.nan, np.ldexp(1.0, bits - taken.bias))
    magnitude = bits & ((1 << (taken.bits - 1)) - 1)
    exponent, fraction = magnitude >> taken.mantissa, magnitude & ((1 << taken.mantissa) - 1)
    normal = exponent > 0
    numbers = np.ldexp(
        fraction + (normal << taken.mantissa),
        np.where(normal, exponent, 1) - taken.bias - taken.mantissa,
    )
    numbers = np.where(sign == 1, -numbers, numbers)
    if taken.kind is Kind.FNUZ:
        return np.where(magnitude + (sign << (taken.bits - 1)) == 1 << (taken.bits - 1), np.nan, numbers)
    if taken.kind is Kind.FN:
        return np.where(magnitude == magnitude.max(), np.nan, numbers)
    highest = exponent == exponent.max()
    special = np.where(fraction > 0, np.nan, np.where(sign == 1, -np.inf, np.inf))
    return np.where(highest, special, numbers)
