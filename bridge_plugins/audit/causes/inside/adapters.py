"""Adapters merged once too often, or not at all."""

from __future__ import annotations

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case

_OFTEN = (1, 2, -1)


def explain(case: Case) -> str | None:
    """``adapters are merged into o_proj once more than in the reference``.

    Said if every element is the reference's plus the adapters' product, to within one rounding of its dtype.
    """
    if case.delta is None or not case.same_kind or case.wrong_tensor is None or case.right_tensor is None:
        return None
    for times in _OFTEN:
        if _adds_up(case.wrong_tensor, case.right_tensor, times * case.delta):
            said = {1: "are merged into {} once more than", 2: "are merged into {} twice more than"}
            return f"adapters {said.get(times, 'are not merged into {}, as they are').format(case.word)} in the reference"
    return None


def _adds_up(found: Tensor, base: Tensor, added: Tensor) -> bool:
    if added.shape != base.shape:
        return False
    sums = base.float() + added
    rounding = torch.finfo(base.dtype).eps * torch.maximum(sums.abs(), base.float().abs())
    apart = found.float() - sums
    within = bool((apart.abs() <= rounding).all())
    # Adapters so small that rounding swallows them would explain anything.
    return within and float(torch.linalg.vector_norm(apart)) < 0.1 * float(torch.linalg.vector_norm(added))
