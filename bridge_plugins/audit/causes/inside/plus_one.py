"""A norm that is kept around zero, or around one, where it should be the other way (Gemma, layernorm_1p)."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case


def explain(case: Case) -> str | None:
    """``input_layernorm is the reference plus 1``."""
    if (
        len(case.right.shape) != 1
        or not case.same_kind
        or not case.right.dtype.startswith(("bfloat", "float"))
    ):
        return None
    if case.changes_to_wrong(_plus_one) or case.changes_to_right(_minus_one):
        return f"{case.word} is the reference plus 1"
    if case.changes_to_wrong(_minus_one) or case.changes_to_right(_plus_one):
        return f"{case.word} is the reference minus 1"
    return None


def _plus_one(tensor: Tensor) -> Tensor:
    return (tensor.float() + 1).to(tensor.dtype)


def _minus_one(tensor: Tensor) -> Tensor:
    return (tensor.float() - 1).to(tensor.dtype)
