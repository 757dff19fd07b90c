"""A tensor that differs, with the bits of one side or of both at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from bridge_plugins.audit.causes.wording import leaf
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.fingerprint.coverage import rows_and_cols

_PIECE = 1 << 20  #: elements

Lanes = tuple[int, int]
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
        """Whether `undo` makes the right tensor of the wrong one, or `redo` the wrong one of the right."""
        return self.makes_right(undo) if self.wrong_tensor is not None else self.makes_wrong(redo)

    def makes_right(self, view: View) -> bool:
        """Whether `view` of the wrong tensor is the right one."""
        return _is(self.wrong_tensor, view, self.right)

    def makes_wrong(self, view: View) -> bool:
        """Whether `view` of the right tensor is the wrong one."""
        return _is(self.right_tensor, view, self.wrong)

    def pieces(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """Both tensors flat, some megabytes at a time, the wrong one first, and where each piece begins: whole, an
        embedding in double would take ten times its size. None if one of them is not at hand."""
        if self.wrong_tensor is None or self.right_tensor is None:
            return
        one, other = self.wrong_tensor.flatten(), self.right_tensor.flatten()
        for at in range(0, len(one), _PIECE):
            yield at, one[at : at + _PIECE], other[at : at + _PIECE]

    def changes_to_wrong(self, view: View) -> bool:
        """As `makes_wrong` for a view that changes elements and leaves them in their place: some megabytes at a time."""
        if self.right_tensor is None or self.right.shape != self.wrong.shape:
            return False
        matrix = self.right_tensor.reshape(rows_and_cols(self.right.shape))
        step = max(_PIECE // max(matrix.shape[1], 1), 1)
        found = [0, 0]
        for row in range(0, len(matrix), step):
            seen = view(matrix[row : row + step])
            if str(seen.dtype).removeprefix("torch.") != self.wrong.dtype:
                return False
            part = fingerprint(seen, row_offset=row, statistics=False).lanes
            found = [(one + other) % 2**64 for one, other in zip(found, part, strict=True)]
        return tuple(found) == self.wrong.lanes


def _is(tensor: Tensor | None, view: View, record: Record) -> bool:
    if tensor is None:
        return False
    seen = view(tensor)
    same = (tuple(seen.shape), str(seen.dtype).removeprefix("torch.")) == (record.shape, record.dtype)
    return same and lanes(seen) == record.lanes


def lanes(tensor: Tensor) -> Lanes:
    """A whole tensor's lanes."""
    return fingerprint(tensor, statistics=False).lanes
