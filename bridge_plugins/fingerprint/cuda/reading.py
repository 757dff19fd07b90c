"""How a kernel reads a format; compiled in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from bridge_plugins.fingerprint.formats import Format


@dataclass(frozen=True, slots=True)
class Reading:
    """A format in numbers and strings, which Triton can compile in and tell apart.

    Attributes:
        bits, kind, mantissa, bias: as of `Format`.
        ptx: whether to use the instructions of `ptx.py`.
    """

    bits: int
    kind: str
    mantissa: int
    bias: int
    ptx: bool


@cache
def reading(taken: Format, ptx: bool) -> Reading:
    """The reading of a format."""
    return Reading(taken.bits, taken.kind.name, taken.mantissa, taken.bias, ptx)
