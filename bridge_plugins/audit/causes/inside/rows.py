"""Rows dealt out in another order: a fingerprint is a sum over rows, so that each is looked at once, for all orders."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import lanes
from bridge_plugins.audit.causes.key_arrays import first_keys
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.cpu.run import measure
from bridge_plugins.fingerprint.formats import format_of
from bridge_plugins.fingerprint.geometry import (
    ADDRESS,
    COL_BYTES,
    COL_STRIDE,
    COLS,
    FIELDS,
    ROW_BYTES,
    ROW_STRIDE,
    ROWS,
)
from bridge_plugins.fingerprint.keys import LANES, ROW, key
from bridge_plugins.fingerprint.value import Lanes


class Rows:
    """The rows of tensors one below the other, which lie on the CPU; those of vectors are their elements."""

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._tensors = tensors
        self._counts = [math.prod(tensor.shape[:-1] or tensor.shape) for tensor in tensors]

    def dealt(self, view: Callable[[Tensor], Tensor]) -> list[Lanes]:
        """What fingerprints the tensors would have, if `view` were put in their place.

        It must move rows as wholes, and is asked where it puts which, by their numbers.
        """
        leading = (sum(len(tensor) for tensor in self._tensors), *self._tensors[0].shape[1:-1])
        order = view(torch.arange(math.prod(leading)).reshape(*leading, 1)).flatten()
        of = self._of_vectors if self._tensors[0].dim() == 1 else self._of_matrices
        return [of(part) for part in torch.split(order, self._counts)]

    def _of_matrices(self, order: Tensor) -> Lanes:
        sums = self._sums[order.numpy()]
        low, high = (int((first_keys(lane, ROW, len(order)) * sums[:, lane]).sum()) for lane in range(LANES))
        return low, high

    def _of_vectors(self, order: Tensor) -> Lanes:
        return lanes(
            torch.cat([tensor.view(format_of(tensor.dtype).integer) for tensor in self._tensors])[order]
        )

    @cached_property
    def _sums(self) -> NDArray[np.uint64]:
        """Of each row what its key is multiplied with, in both lanes."""
        return np.concatenate([_sums(tensor) for tensor in self._tensors])


def _sums(tensor: Tensor) -> NDArray[np.uint64]:
    matrix, form = tensor.reshape(rows_and_cols(tensor.shape)), format_of(tensor.dtype)
    rows, cols = matrix.shape
    table = np.zeros((rows, FIELDS), np.int64)  # each row is at the place of the first one
    table[:, ADDRESS] = matrix.data_ptr() + np.arange(rows) * cols * form.bytes
    table[:, ROW_BYTES], table[:, COL_BYTES] = cols * form.bytes, form.bytes
    table[:, ROWS], table[:, COLS] = 1, cols
    table[:, [ROW_STRIDE, COL_STRIDE]] = 1
    first = np.array([pow(key(lane, ROW, 0), -1, 2**64) for lane in range(LANES)], np.uint64)
    return measure(table, form, form, statistics=False).lanes * first
