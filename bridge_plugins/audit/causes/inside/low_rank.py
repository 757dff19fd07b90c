"""The difference is a matrix of low rank, as an adapter is: one was merged into one side, or taken off it."""

from __future__ import annotations

import torch
from torch import Tensor

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
    apart = found.double() - should.double()
    touched = [int(apart.any(dim=axis).sum()) for axis in (0, 1)]  # a few rows alone have a low rank anyway
    most = min(_MOST, min(touched) // 4)
    rounding = torch.finfo(found.dtype).eps * float(torch.linalg.vector_norm(found.double()))
    size = float(torch.linalg.vector_norm(apart))
    if not most or not size > _PLAIN * rounding:  # NaN is nothing that rank could tell of
        return None
    rank = _rank(apart, most, rounding)
    said = f"{case.word} differs from the reference by a matrix of rank {rank}, as an adapter is"
    return said if rank else None


def _rank(matrix: Tensor, most: int, rest: float) -> int:
    """How many singular values leave no more than `rest` of the Frobenius norm; 0 if `most` leave more.

    Of a random projection (Halko, Martinsson, Tropp 2011), which is exact for ranks below its width.
    """
    width = min(2 * most, min(matrix.shape))
    generator = torch.Generator().manual_seed(_SEED)
    probe = torch.randn(matrix.shape[1], width, generator=generator, dtype=matrix.dtype)
    basis = torch.linalg.qr(matrix @ probe).Q
    within = basis.T @ matrix
    outside = float(torch.linalg.vector_norm(matrix - basis @ within)) ** 2
    values = torch.linalg.svdvals(within) ** 2
    left = outside + values.sum() - values.cumsum(0)
    fits = (left[:most] <= rest**2).nonzero()
    return int(fits[0]) + 1 if len(fits) else 0
