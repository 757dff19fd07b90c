"""The difference is a matrix of low rank, as an adapter is: one was merged into one side, or taken off it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import in_rows
from bridge_plugins.audit.causes.inside.case import Case

_MOST = 64  #: an adapter's rank, at most
_PLAIN = 10.0  #: times the roundings: what is smaller could be them
_LARGEST = 1 << 26  #: elements: vocabularies take long and have no adapters
_SEED = 0


def explain(case: Case) -> str | None:
    """``o_proj differs from the reference by a matrix of rank 8, as an adapter is``.

    Takes both tensors. Said if roundings to the tensor's dtype, one an element, are all that is left of the difference
    beside its first singular values, of at most a quarter of the rows and columns that differ.
    """
    found, should = case.wrong_tensor, case.right_tensor
    if found is None or should is None or not case.same_kind or case.may_be_rearranged:
        return None  # rows that changed places differ by a matrix of low rank, too
    if found.dim() != 2 or not found.is_floating_point() or found.numel() > _LARGEST:
        return None
    apart = _Apart(found, should)
    most = min(_MOST, apart.touched // 4)  # a few rows alone have a low rank anyway
    norm = math.sqrt(sum(float(torch.linalg.vector_norm(rows.double())) ** 2 for rows in in_rows(found)))
    rounding = torch.finfo(found.dtype).eps * norm
    if not most or not apart.norm > _PLAIN * rounding:  # NaN is nothing that rank could tell of
        return None
    rank = _rank(apart, most, rounding)
    said = f"{case.word} differs from the reference by a matrix of rank {rank}, as an adapter is"
    return said if rank else None


@dataclass(frozen=True)
class _Apart:
    """What two matrices differ by, in double, some rows at a time: whole, it would take four times a tensor's size."""

    found: Tensor
    should: Tensor

    def rows(self) -> Iterator[Tensor]:
        for one, other in zip(in_rows(self.found), in_rows(self.should), strict=True):
            yield one.double() - other.double()

    def beside(self, basis: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """The same with the rows of another matrix."""
        start = 0
        for rows in self.rows():
            yield basis[start : start + len(rows)], rows
            start += len(rows)

    @cached_property
    def norm(self) -> float:
        """Frobenius."""
        return math.sqrt(sum(float(torch.linalg.vector_norm(rows)) ** 2 for rows in self.rows()))

    @cached_property
    def touched(self) -> int:
        """Rows that differ, or columns, of which there are fewer."""
        rows, cols = 0, torch.zeros(self.found.shape[1], dtype=torch.bool)
        for piece in self.rows():
            rows += int(piece.any(dim=1).sum())
            cols |= piece.any(dim=0)
        return min(rows, int(cols.sum()))


def _rank(apart: _Apart, most: int, rest: float) -> int:
    """How many singular values leave no more than `rest` of the Frobenius norm; 0 if `most` leave more.

    Of a random projection (Halko, Martinsson, Tropp 2011), which is exact for ranks below its width.
    """
    width = min(2 * most, min(apart.found.shape))
    generator = torch.Generator().manual_seed(_SEED)
    probe = torch.randn(apart.found.shape[1], width, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.cat([rows @ probe for rows in apart.rows()])).Q
    within = sum(part.T @ rows for part, rows in apart.beside(basis))
    outside = sum(
        float(torch.linalg.vector_norm(rows - part @ within)) ** 2 for part, rows in apart.beside(basis)
    )
    values = torch.linalg.svdvals(within) ** 2
    left = outside + values.sum() - values.cumsum(0)
    fits = (left[:most] <= rest**2).nonzero()
    return int(fits[0]) + 1 if len(fits) else 0
