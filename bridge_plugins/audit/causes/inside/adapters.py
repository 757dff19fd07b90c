"""Adapters merged once too often, or not at all."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import in_rows
from bridge_plugins.audit.causes.inside.case import Case

_OFTEN = (1, 2, -1)


def explain(case: Case) -> str | None:
    """``adapters are merged into o_proj once more than in the reference``.

    Said if every element is the reference's plus the adapters' product, to within one rounding of its dtype.
    """
    if case.delta is None or not case.same_kind or case.wrong_tensor is None or case.right_tensor is None:
        return None
    for times in _OFTEN:
        if _adds_up(case.wrong_tensor, case.right_tensor, case.delta, times):
            said = {1: "are merged into {} once more than", 2: "are merged into {} twice more than"}
            return f"adapters {said.get(times, 'are not merged into {}, as they are').format(case.word)} in the reference"
    return None


def _adds_up(found: Tensor, base: Tensor, added: Tensor, times: int) -> bool:
    if added.shape != base.shape:
        return False
    size = abs(times) * float(torch.linalg.vector_norm(added))
    rounding = torch.finfo(base.dtype).eps
    left = 0.0
    for one, other, more in zip(*map(in_rows, (found, base, added)), strict=True):
        sums = other.float().add(more, alpha=times)
        apart = one.float() - sums
        if not bool((apart.abs() <= rounding * torch.maximum(sums.abs(), other.float().abs())).all()):
            return False
        left += float(torch.linalg.vector_norm(apart)) ** 2
    # Adapters so small that rounding swallows them would explain anything.
    return math.sqrt(left) < 0.1 * size
