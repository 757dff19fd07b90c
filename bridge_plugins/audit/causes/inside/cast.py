"""Another dtype, or a detour through one that can't hold every bit."""

from __future__ import annotations

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import in_rows
from bridge_plugins.audit.causes.inside.case import Case, View
from bridge_plugins.fingerprint.formats import Kind, named

_NARROW = ("bfloat16", "float16")


def explain(case: Case) -> str | None:
    """``gate was cast to bfloat16: 90 of 128 elements lost bits``, and the like."""
    found, should = named(case.wrong.dtype), named(case.right.dtype)
    if case.wrong.shape != case.right.shape or Kind.IEEE not in (found.kind, should.kind):
        return None
    if found == should:
        return next((_detour(case, narrow) for narrow in _NARROW if _went_through(case, narrow)), None)
    if case.right_tensor is not None and case.changes_to_wrong(_to(found.dtype)):
        return f"{case.word} was cast to {found.name}: {_lost(case, found.dtype)}"
    if case.right_tensor is None and case.changes_to_right(_to(should.dtype)):
        return f"{case.word} is {found.name}; as {should.name} it is the reference's"
    return None


def _went_through(case: Case, narrow: str) -> bool:
    """Both tensors have one dtype, and the right one's elements lose bits in another that can't hold them."""
    if narrow == case.right.dtype or named(narrow).bits > named(case.right.dtype).bits:
        return False
    wide = named(case.right.dtype).dtype
    return case.changes_to_wrong(lambda tensor: tensor.to(named(narrow).dtype).to(wide))


def _detour(case: Case, narrow: str) -> str:
    return f"{case.word} went through {narrow}: {_lost(case, named(narrow).dtype)}"


def _lost(case: Case, narrow: torch.dtype) -> str:
    assert case.right_tensor is not None
    lost = sum(int((rows.to(narrow).to(rows.dtype) != rows).sum()) for rows in in_rows(case.right_tensor))
    return f"{lost:,} of {case.right.elements:,} elements lost bits" if lost else "no element lost bits"


def _to(dtype: torch.dtype) -> View:
    def view(tensor: Tensor) -> Tensor:
        return tensor.to(dtype)

    return view
