"""Too many rows or columns, or too few: padding that was left in, a gather that was made twice or not at all."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View


def explain(case: Case) -> str | None:
    """``embed_tokens has 128 rows more than the reference, all zeros: padding was left in``, and the like."""
    one, other = case.wrong, case.right
    if one.dtype != other.dtype or len(one.shape) != len(other.shape):
        return None
    axes = [axis for axis, (a, b) in enumerate(zip(one.shape, other.shape, strict=True)) if a != b]
    if len(axes) != 1:
        return None
    [axis] = axes
    found, should = one.shape[axis], other.shape[axis]
    along = "columns" if axis == len(one.shape) - 1 else "rows" if axis == len(one.shape) - 2 else "matrices"
    return (_more if found > should else _less)(case, axis, found, should, along)


def _more(case: Case, axis: int, found: int, should: int, along: str) -> str | None:
    if case.wrong_tensor is None or not case.makes_right(_from(axis, 0, should)):
        return None
    copies = found // should
    if found % should == 0 and all(case.makes_right(_from(axis, n * should, should)) for n in range(copies)):
        return f"{case.word} is there {copies} times along its {along}"
    rest = case.wrong_tensor.narrow(axis, should, found - should)
    said = f"{case.word} has {found - should} {along} after the reference's {should}"
    return said if rest.ne(0).any() else f"{said}, all zeros: padding was left in"


def _less(case: Case, axis: int, found: int, should: int, along: str) -> str | None:
    if found and should % found == 0:
        for shard in range(should // found):
            if case.makes_wrong(_from(axis, shard * found, found)):
                return f"{case.word} is TP shard {shard} of {should // found} alone ({along}): it was not gathered"
    if case.makes_wrong(_from(axis, 0, found)):
        return f"the last {should - found} of {should} {along} of {case.word} are missing"
    return None


def _from(axis: int, start: int, length: int) -> View:
    def view(tensor: Tensor) -> Tensor:
        return tensor.narrow(axis, start, length)

    return view
