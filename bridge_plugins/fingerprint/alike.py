"""Which tensors are read alike: by one plan, or by one table."""

from __future__ import annotations

from typing import Final

from torch import Tensor

ALIGNMENT: Final = 16
"""Bytes: what lies alike modulo this is read alike."""


def kind_of(tensor: Tensor) -> object:
    """What a plan depends on, whatever the tensor's address. Few calls: this is asked for each of some ten thousand."""
    return tensor.shape, tensor.is_contiguous() or tensor.stride(), tensor.dtype, tensor.is_neg()
