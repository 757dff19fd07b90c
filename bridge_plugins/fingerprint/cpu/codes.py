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
        lookup: 2^bits float64 for formats of 16 bits at most, else one entry that isn't read.
    """

    code: int
    lookup: NDArray[np.float64]


@cache
def code_of(taken: Format) -> Code:
    """The reading of a format."""
    if taken.bits <= 16:
        bits = torch.arange(1 << taken.bits, dtype=torch.int64)
        elements = bits.to(taken.integer).view(taken.integer if taken.kind is Kind.UNSIGNED else taken.dtype)
        numbers = elements.to(torch.float64)
        if taken.kind is Kind.UNSIGNED:
            numbers = bits.to(torch.float64)
        code = {"bfloat16": s.BFLOAT16, "float16": s.FLOAT16}.get(taken.name, s.LOOKUP)
        return Code(code, numbers.numpy())
    code = {
        (32, Kind.IEEE): s.FLOAT32,
        (64, Kind.IEEE): s.FLOAT64,
        (32, Kind.SIGNED): s.SIGNED32,
        (32, Kind.UNSIGNED): s.UNSIGNED32,
        (64, Kind.SIGNED): s.SIGNED64,
        (64, Kind.UNSIGNED): s.UNSIGNED64,
    }[taken.bits, taken.kind]
    return Code(code, np.zeros(1))
