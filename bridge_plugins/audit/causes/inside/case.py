"""A tensor that differs, with the bits of one side or of both at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import PIECE, in_rows, lanes, lanes_of
from bridge_plugins.audit.causes.inside.rows import Rows
from bridge_plugins.audit.causes.wording import leaf
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record

View = Callable[[Tensor], Tensor]
Tensors = Callable[[str], Tensor | None]
"""HF name → the tensor, or None if it isn't at hand."""


@dataclass(frozen=True)
class Case:
    """`wrong` is what was found, `right` what should be there; `wrong_tensor` and `right_tensor` their tensors; `delta`
    what merging its adapter would add.
    """

    wrong: Record
    right: Record
    wrong_tensor: Tensor | None = None
    right_tensor: Tensor | None = None
    delta: Tensor | None = None

    @cached_property
    def word(self) -> str:
        """What people call the tensor: ``o_proj``."""
        return leaf(place_of(self.right.name).inside)

    @property
    def same_kind(self) -> bool:
        """Whether dtype and shape are right, and only the elements aren't."""
        return (self.wrong.dtype, self.wrong.shape) == (self.right.dtype, self.right.shape)

    @property
    def may_be_rearranged(self) -> bool:
        """Whether the two can have the same elements in another order."""
        one, other = self.wrong, self.right
        if (one.dtype, one.elements) != (other.dtype, other.elements):
            return False
        if not (one.norm and other.norm):  # no statistics were taken
            return True
        return (one.absmax, one.zeros, one.nonfinite) == (other.absmax, other.zeros, other.nonfinite)

    def rearranged(self, undo: View, redo: View) -> bool:
        """Whether `undo` makes the right tensor of the wrong one, or `redo` the wrong one of the right. Neither may copy."""
        return self.makes_right(undo) if self.wrong_tensor is not None else self.makes_wrong(redo)

    def makes_right(self, view: View) -> bool:
        """Whether `view` of the wrong tensor is the right one."""
        return _is(self.wrong_tensor, view, self.right)

    def makes_wrong(self, view: View) -> bool:
        """Whether `view` of the right tensor is the wrong one."""
        return _is(self.right_tensor, view, self.wrong)

    def has_rows_rearranged(self, undo: View, redo: View) -> bool:
        """As `rearranged` of tensors of one shape, for views that move rows as wholes; they see the rows' numbers."""
        if self._rows is None:
            return False
        undone = self.wrong_tensor is not None
        view, record = (undo, self.right) if undone else (redo, self.wrong)
        return self._rows.dealt(view) == [record.lanes]

    @cached_property
    def _rows(self) -> Rows | None:
        tensor = self.right_tensor if self.wrong_tensor is None else self.wrong_tensor
        return None if tensor is None else Rows([tensor])

    def changes_to_wrong(self, view: View) -> bool:
        """As `makes_wrong` for a view that changes elements and leaves them in their place; it may copy."""
        return _changes(self.right_tensor, view, self.wrong)

    def changes_to_right(self, view: View) -> bool:
        """As `makes_right`, in the same way."""
        return _changes(self.wrong_tensor, view, self.right)

    def pieces(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Both tensors flat, piece by piece, the wrong one first, and where each piece begins. None if one of them is not
        at hand.
        """
        if self.wrong_tensor is None or self.right_tensor is None:
            return
        one, other = self.wrong_tensor.flatten(), self.right_tensor.flatten()
        for at in range(0, len(one), PIECE):
            yield at, one[at : at + PIECE], other[at : at + PIECE]


def _is(tensor: Tensor | None, view: View, record: Record) -> bool:
    if tensor is None:
        return False
    seen = view(tensor)
    return (tuple(seen.shape), _name(seen)) == (record.shape, record.dtype) and lanes(seen) == record.lanes


def _changes(tensor: Tensor | None, view: View, record: Record) -> bool:
    if tensor is None or tuple(tensor.shape) != record.shape or _name(view(tensor[..., :0])) != record.dtype:
        return False
    return lanes_of(map(view, in_rows(tensor))) == record.lanes


def _name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
