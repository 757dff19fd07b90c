"""Tensors piece by piece: an embedding in double would take ten times its size, and a tensor is mapped, not held."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from torch import Tensor

from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.value import Lanes, sum_of_lanes

PIECE = 1 << 20  #: elements, or one row


def lanes(tensor: Tensor) -> Lanes:
    """A whole tensor's lanes, without a copy, whatever its strides."""
    if tensor.dim() < 3 or tensor.is_contiguous():
        return fingerprint(tensor, statistics=False).lanes
    return lanes_of(tensor.flatten(0, -3))  # a stack of matrices that are views can't be seen as one matrix


def lanes_of(pieces: Iterable[Tensor]) -> Lanes:
    """The lanes of a tensor that comes in pieces of whole rows, in order."""
    row, parts = 0, []
    for piece in pieces:
        parts.append(fingerprint(piece, row_offset=row, statistics=False).lanes)
        row += rows_and_cols(piece.shape).rows
    return sum_of_lanes(parts)


def in_rows(tensor: Tensor) -> Iterator[Tensor]:
    """A tensor as rows x last dimension, some rows at a time."""
    matrix = tensor.reshape(rows_and_cols(tensor.shape))
    step = max(PIECE // max(matrix.shape[1], 1), 1)
    return (matrix[row : row + step] for row in range(0, len(matrix), step))
