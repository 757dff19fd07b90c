"""How a kernel reads a format; compiled in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from bridge_plugins.fingerprint.formats import Format, Kind


@dataclass(frozen=True, slots=True)
class Reading:
    """A format in numbers and strings, which Triton can compile in and tell apart.

    Attributes:
        bits, kind, mantissa, bias: as of `Format`.
        limit: numbers at or above it, in the fast statistics, mean that a tile needs the exact ones. There lie
            Inf and NaN as `words_tile` reads them, and float32 numbers whose squares might overflow.
    """

    bits: int
    kind: str
    mantissa: int
    bias: int
    limit: float


@cache
def reading(taken: Format) -> Reading:
    """The reading of a format."""
    top = 2.0 ** min(taken.bias + 1, 50)
    if taken.kind in (Kind.SIGNED, Kind.UNSIGNED):
        limit = 2.0**50
    elif taken.kind is Kind.IEEE or taken.bias >= 50:
        limit = top
    else:
        limit = (2.0 - 2.0**-taken.mantissa) * top
    return Reading(taken.bits, taken.kind.name, taken.mantissa, taken.bias, limit)
