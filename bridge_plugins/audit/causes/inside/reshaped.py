"""The right elements in the right order, in another shape."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case


def explain(case: Case) -> str | None:
    """``q_proj has the reference's elements in its order, as [32, 128] instead of [64, 64]``."""
    found, should = case.wrong.shape, case.right.shape
    if found == should or not case.may_be_rearranged:
        return None

    def undo(tensor: Tensor) -> Tensor:
        return tensor.reshape(should)

    def redo(tensor: Tensor) -> Tensor:
        return tensor.reshape(found)

    if not case.rearranged(undo, redo):
        return None
    return (
        f"{case.word} has the reference's elements in its order, as {list(found)} instead of {list(should)}"
    )
