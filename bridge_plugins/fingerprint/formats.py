"""The dtypes that have a fingerprint, and what their bits mean."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch  # imported where it is used: files are read without it


class Kind(Enum):
    """How to read the bits of an element as a number."""

    IEEE = "sign, exponent, mantissa; the highest exponent is Inf or NaN"
    FN = "as IEEE, but finite up to the last pattern, which is NaN; no Inf"
    FNUZ = "as FN, but NaN is the pattern of minus zero"
    EXPONENT = "a power of two, unsigned; the last pattern is NaN"
    SIGNED = "two's complement"
    UNSIGNED = "unsigned; bool and packed 4-bit values too"


@dataclass(frozen=True, slots=True)
class Format:
    """A dtype's name, its width, and how its bits read; for floats, mantissa bits and exponent bias."""

    name: str
    bits: int
    kind: Kind
    mantissa: int = 0
    bias: int = 0

    @property
    def bytes(self) -> int:
        """Width in bytes."""
        return self.bits // 8

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        import torch

        dtype: torch.dtype = getattr(torch, self.name)
        return dtype

    @property
    def integer(self) -> torch.dtype:
        """The torch integer dtype that can view the bits (sign and all)."""
        import torch

        return {8: torch.uint8, 16: torch.int16, 32: torch.int32, 64: torch.int64}[self.bits]


_FORMATS = (
    Format("float64", 64, Kind.IEEE, 52, 1023),
    Format("float32", 32, Kind.IEEE, 23, 127),
    Format("bfloat16", 16, Kind.IEEE, 7, 127),
    Format("float16", 16, Kind.IEEE, 10, 15),
    Format("float8_e5m2", 8, Kind.IEEE, 2, 15),
    Format("float8_e4m3fn", 8, Kind.FN, 3, 7),
    Format("float8_e5m2fnuz", 8, Kind.FNUZ, 2, 16),
    Format("float8_e4m3fnuz", 8, Kind.FNUZ, 3, 8),
    Format("float8_e8m0fnu", 8, Kind.EXPONENT, 0, 127),
    Format("float4_e2m1fn_x2", 8, Kind.UNSIGNED),
    Format("int64", 64, Kind.SIGNED),
    Format("int32", 32, Kind.SIGNED),
    Format("int16", 16, Kind.SIGNED),
    Format("int8", 8, Kind.SIGNED),
    Format("uint64", 64, Kind.UNSIGNED),
    Format("uint32", 32, Kind.UNSIGNED),
    Format("uint16", 16, Kind.UNSIGNED),
    Format("uint8", 8, Kind.UNSIGNED),
    Format("bool", 8, Kind.UNSIGNED),
)

_BY_NAME = {known.name: known for known in _FORMATS}


def named(name: str) -> Format:
    """The format that torch calls `name`. Raises KeyError if it has no fingerprint."""
    return _BY_NAME[name]


def has_fingerprint(name: str) -> bool:
    """Whether what torch calls `name` is a dtype with a fingerprint."""
    return name in _BY_NAME


@cache
def _by_dtype() -> dict[torch.dtype, Format]:
    import torch

    # Older releases of torch lack the newest dtypes.
    return {known.dtype: known for known in _FORMATS if hasattr(torch, known.name)}


def supported() -> tuple[Format, ...]:
    """Every format that this torch knows."""
    return tuple(_by_dtype().values())


def format_of(dtype: torch.dtype) -> Format:
    """The format of `dtype`. Raises TypeError for complex and quantized ones."""
    try:
        return _by_dtype()[dtype]
    except KeyError:
        known = ", ".join(known.name for known in supported())
        raise TypeError(f"{dtype} has no fingerprint; view it as one of: {known}") from None
