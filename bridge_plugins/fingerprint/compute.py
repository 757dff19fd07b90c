"""The calls: one tensor, or many at once, on whatever device they are."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.part import Part
from bridge_plugins.fingerprint.table import FingerprintTable
from bridge_plugins.fingerprint.value import Fingerprint


def fingerprint(
    tensor: Tensor,
    *,
    row_offset: int = 0,
    col_offset: int = 0,
    at: Box | None = None,
    as_dtype: torch.dtype | None = None,
    statistics: bool = True,
) -> Fingerprint:
    """The fingerprint of a tensor, or of a part of one at its place in the whole.

    Args:
        tensor: any rank from 0-d on, any strides, any device but meta; seen as rows × last dimension.
        row_offset: the row of the whole tensor where this one begins.
        col_offset: the column, in elements, alike.
        at: the place as a strided box, and which block of `tensor` to take; instead of the offsets.
        as_dtype: the dtype of the stream, where `tensor` is held in a wider float: elements are taken as
            that dtype, and `lossy` counts those that it can't hold exactly.
        statistics: compute them in the same pass.

    Raises:
        TypeError: for a dtype or a conversion that has no fingerprint.
        ValueError: for a meta or sparse tensor, a box that leaves the tensor, or a place given twice.
    """
    if at is not None and (row_offset or col_offset):
        raise ValueError("a place is either row_offset and col_offset or at=, not both")
    if row_offset or col_offset:
        at = Box(rows_and_cols(tensor.shape), Pair(row_offset, col_offset))
    return fingerprint_many([Part(tensor, at, as_dtype)], statistics=statistics)[0]


def fingerprint_many(parts: Iterable[Part | Tensor], *, statistics: bool = True) -> list[Fingerprint]:
    """The fingerprints of many tensors or parts, in order; see `fingerprint` and `Part`."""
    listed = [part if isinstance(part, Part) else Part(part) for part in parts]
    table = FingerprintTable(listed, statistics=statistics)
    return table.run([part.tensor for part in listed]).read()
