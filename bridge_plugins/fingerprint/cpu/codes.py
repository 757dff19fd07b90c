"""What the CPU kernels need to know of a format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.formats import Format, Kind

# How bits read as a number: those after UNSIGNED64, and LOOKUP, by a table of 2^bits float64.
LOOKUP, FLOAT32, FLOAT64, SIGNED32, UNSIGNED32, SIGNED64, UNSIGNED64 = range(7)
BFLOAT16, FLOAT16, E4M3, E5M2, SIGNED8, UNSIGNED8 = range(7, 13)

_CODES: Final = {
    "float64": FLOAT64,
    "float32": FLOAT32,
    "bfloat16": BFLOAT16,
    "float16": FLOAT16,
    "float8_e4m3fn": E4M3,
    "float8_e5m2": E5M2,
    "int64": SIGNED64,
    "int32": SIGNED32,
    "int8": SIGNED8,
    "uint64": UNSIGNED64,
    "uint32": UNSIGNED32,
    "uint8": UNSIGNED8,
    "bool": UNSIGNED8,
    "float4_e2m1fn_x2": UNSIGNED8,
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
    return Code(_CODES.get(taken.name, LOOKUP), lookup)


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
