"""Digits as floating-point values that survive a copy, and nothing but a copy.

A digit becomes one of 1,024 values that bfloat16, float16 and float32 all hold exactly as normal numbers:
``2**e * (1 + m / 128)`` with e from -7 to 0. So a code is read back whatever dtype the holder keeps the tensor in.
Code B is negative and counts the digits backwards: what a loader adds, scales or negates on the way can't give the
same digit in both codes. The values are as large as that, so that adding one doesn't round them away.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 10
BASE = 1 << BITS
CODE_A, CODE_B = "A", "B"

#: Dtypes whose tensors can carry a digit in every element.
CODED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)

_FIRST = (127 - 7) << 7  # the bfloat16 pattern of 2**-7
_SIGN = -(1 << 15)  # of an int16


def digits_for(count: int) -> int:
    """How many digits numbers below `count` need; at least one."""
    digits = 1
    while BASE**digits < count:
        digits += 1
    return digits


def encode(digits: Tensor, dtype: torch.dtype, code: str = CODE_A) -> Tensor:
    """Integers below `BASE`, of any shape and device, as values of `dtype` (one of `CODED_DTYPES`)."""
    patterns = digits + _FIRST if code == CODE_A else BASE - 1 - digits + _FIRST + _SIGN
    return patterns.to(torch.int16).view(torch.bfloat16).to(dtype)


def decode(values: Tensor, code: str = CODE_A) -> Tensor:
    """Digits that `values` carry, as int32, whatever dtype of `CODED_DTYPES` they are held in; -1 where there is none."""
    narrow = values.to(torch.bfloat16)
    patterns = narrow.view(torch.int16).to(torch.int32)
    digits = patterns - _FIRST if code == CODE_A else BASE - 1 - (patterns - _SIGN - _FIRST)
    exact = (digits >= 0) & (digits < BASE) & (narrow.to(values.dtype) == values)
    return torch.where(exact, digits, -1)
