"""What the CPU kernels need to know of a format."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

from bridge_plugins.fingerprint.cpu import statistics as s
from bridge_plugins.fingerprint.formats import Format, Kind


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """A format's reading, for `statistics`.

    Attributes:
        code: LOOKUP, FLOAT32, …
        lookup: 2^bits float64 for LOOKUP, else one entry that isn't read.
        half: for a 16-bit float (shift, scale, limit), see `statistics.observe_halves`; shift 0 for the rest.
    """

    code: int
    lookup: NDArray[np.float64]
    half: tuple[np.uint32, np.float32, np.float32]


_NO_HALF = (np.uint32(0), np.float32(1), np.float32(1))


def _half(taken: Format) -> tuple[np.uint32, np.float32, np.float32]:
    limit = min(2.0 ** (taken.bias + 1), float(s.LARGEST))
    return np.uint32(23 - taken.mantissa), np.float32(2.0 ** (127 - taken.bias)), np.float32(limit)


@cache
def code_of(taken: Format) -> Code:
    """The reading of a format."""
    if taken.bits <= 16:
        bits = torch.arange(1 << taken.bits, dtype=torch.int64)
        elements = bits.to(taken.integer).view(taken.integer if taken.kind is Kind.UNSIGNED else taken.dtype)
        numbers = elements.to(torch.float64)
        if taken.kind is Kind.UNSIGNED:
            numbers = bits.to(torch.float64)
        half = _half(taken) if taken.bits == 16 and taken.kind is Kind.IEEE else _NO_HALF
        return Code(s.LOOKUP, numbers.numpy(), half)
    code = {
        (32, Kind.IEEE): s.FLOAT32,
        (64, Kind.IEEE): s.FLOAT64,
        (32, Kind.SIGNED): s.SIGNED32,
        (32, Kind.UNSIGNED): s.UNSIGNED32,
        (64, Kind.SIGNED): s.SIGNED64,
        (64, Kind.UNSIGNED): s.UNSIGNED64,
    }[taken.bits, taken.kind]
    return Code(code, np.zeros(1), _NO_HALF)
