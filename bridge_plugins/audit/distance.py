"""How far apart two tensors are, piece by piece: neither is ever held whole."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor


def distance(expected: Iterable[Tensor], found: Iterable[Tensor]) -> float:
    """‖found - expected‖ / ‖expected‖ over two tensors' elements, given in equal flat pieces of any dtype.

    Infinite where `expected` is all zeros, and NaN where a value is.
    """
    apart = whole = 0.0
    for before, after in zip(expected, found, strict=True):
        one, other = _wide(before), _wide(after)
        whole += float(torch.linalg.vector_norm(one)) ** 2
        apart += float(torch.linalg.vector_norm(other.sub_(one))) ** 2
    return (apart / whole) ** 0.5 if whole else (float("inf") if apart else 0.0)


def _wide(piece: Tensor) -> Tensor:
    return piece.to(torch.float64 if piece.dtype.itemsize > 2 else torch.float32, copy=True)
