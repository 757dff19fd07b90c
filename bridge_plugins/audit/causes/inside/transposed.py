"""A matrix, or each matrix of a stack, is transposed."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case


def explain(case: Case) -> str | None:
    """``o_proj is transposed``."""
    shape, other = case.right.shape, case.wrong.shape
    if len(shape) < 2 or other != (*shape[:-2], shape[-1], shape[-2]) or not case.may_be_rearranged:
        return None
    return f"{case.word} is transposed" if case.rearranged(_transpose, _transpose) else None


def _transpose(tensor: Tensor) -> Tensor:
    return tensor.transpose(-1, -2)
