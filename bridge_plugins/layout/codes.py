"""Digits as floating-point bit patterns that survive a copy, and nothing but a copy.

A digit d becomes the 16-bit pattern ``0x0400 + d`` (code A) or ``0x2400 + d`` (code B): as bfloat16 and as float16
always finite and normal, and exact when widened to float32. Zero is no code: it means never written.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 13
BASE = 1 << BITS
CODE_A, CODE_B = 0x0400, 0x2400

#: Dtypes whose tensors can carry a digit in every element. float32 carries a bfloat16 pattern in its upper half.
CODED_DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def digits_for(count: int) -> int:
    """How many digits numbers below `count` need; at least one."""
    digits = 1
    while BASE**digits < count:
        digits += 1
    return digits


def encode(digits: Tensor, dtype: torch.dtype, code: int = CODE_A) -> Tensor:
    """Integers below `BASE`, of any shape and device, as values of `dtype` (one of `CODED_DTYPES`)."""
    patterns = (digits + code).to(torch.int16)
    if dtype is torch.float32:
        return patterns.view(torch.bfloat16).to(torch.float32)
    return patterns.view(dtype)


def decode(values: Tensor, dtype: torch.dtype, code: int = CODE_A) -> Tensor:
    """Digits that `values` carry when they were coded in `dtype`, as int32; -1 where there is none.

    `values` may be held wider than `dtype` (float32 fed from bfloat16).
    """
    narrow_dtype = torch.bfloat16 if dtype is torch.float32 else dtype
    narrow = values.to(narrow_dtype)
    digits = narrow.view(torch.int16).to(torch.int32) - code
    exact = (digits >= 0) & (digits < BASE) & (narrow.to(values.dtype) == values)
    return torch.where(exact, digits, -1)
