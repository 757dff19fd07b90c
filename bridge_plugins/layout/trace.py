"""What the planes leave behind in one local tensor, reduced to blocks as they come: no plane is ever kept."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.layout.codes import BASE, CODED_DTYPES, decode
from bridge_plugins.layout.planes import ROW, TENSOR, Plane
from bridge_plugins.layout.prints import print_of_rest
from bridge_plugins.layout.reachable import dense


@dataclass
class Numbers:
    """The HF row (or column) numbers of a rectangle: down its first column, and across its first row.

    All of it stays on the tensor's device until it is asked for: a model has tens of thousands of rectangles.
    """

    down: Tensor | None = None
    across: Tensor | None = None
    _same_across: Tensor | None = None
    _same_down: Tensor | None = None

    def see(self, digits: Tensor, weight: int) -> None:
        """Add one digit of the numbers."""
        down, across = digits[:, 0].to(torch.int64) * weight, digits[0, :].to(torch.int64) * weight
        same_across, same_down = (digits == digits[:, :1]).all(), (digits == digits[:1, :]).all()
        if self.down is None or self.across is None or self._same_across is None or self._same_down is None:
            self.down, self.across, self._same_across, self._same_down = down, across, same_across, same_down
        else:
            self.down += down
            self.across += across
            self._same_across = self._same_across & same_across
            self._same_down = self._same_down & same_down

    @property
    def same_across(self) -> bool:
        """Whether every row of the rectangle repeats one number."""
        return bool(self._same_across)

    @property
    def same_down(self) -> bool:
        """Whether every column does."""
        return bool(self._same_down)


@dataclass
class Rectangle:
    """A rectangle of a local tensor that one HF tensor fills: that tensor's number, and which HF rows and columns."""

    top: int
    left: int
    height: int
    width: int
    number: int
    #: 1 while all of it was copied; a tensor once that has been looked at.
    intact: Tensor | bool = True
    rows: Numbers = field(default_factory=Numbers)
    columns: Numbers = field(default_factory=Numbers)

    @property
    def corner(self) -> Pair:
        return Pair(self.top, self.left)

    def cut(self, digits: Tensor) -> Tensor:
        return digits[self.top : self.top + self.height, self.left : self.left + self.width]

    @property
    def copied(self) -> bool:
        return bool(self.intact)

    def see(self, plane: Plane, digits: Tensor) -> None:
        self.intact = self.intact & (digits >= 0).all()
        (self.rows if plane.number == ROW else self.columns).see(digits, BASE**plane.digit)


@dataclass
class Trace:
    """One local tensor, through all planes. Call `see` once after each plane, in their order, then `boxes`."""

    dtype: torch.dtype
    numel: int
    rectangles: list[Rectangle] = field(default_factory=list)
    seen: bool = False
    _rest: set[tuple[int, int]] = field(default_factory=set)

    def see(self, plane: Plane, tensor: Tensor, *, last: bool = False) -> None:
        """Read the digits that loading `plane` left in `tensor`, which has any rank; `last`: no plane follows."""
        if self.dtype not in CODED_DTYPES:
            return
        tensor = dense(tensor.detach())
        size = rows_and_cols(tensor.shape)
        digits = decode(tensor.reshape(size), plane.code)
        if plane.number != TENSOR:
            for rectangle in self.rectangles:
                rectangle.see(plane, rectangle.cut(digits))
        elif not self.seen:
            self.seen = True
            # A stack of matrices is read matrix by matrix: each may be held transposed.
            slab = tensor.shape[-2] if tensor.dim() > 2 else size.rows
            self.rectangles = [r for r in _constant_rectangles(digits, slab) if r.number >= 0]
        elif plane.digit == 0:
            # The other code: where the same digit doesn't come back, nothing was written, or something was computed.
            for rectangle in self.rectangles:
                rectangle.intact = (rectangle.cut(digits) == rectangle.number).all()
            self.rectangles = [r for r in self.rectangles if r.copied]
            self._rest.add(self._outside(tensor))
        else:
            self._refine(plane, digits)
        if last:
            self._rest.add(self._outside(tensor))

    def why_derived(self, copied: int) -> str:
        """Why it is not known what all of the tensor's elements are, if `copied` are; empty if it is known.

        What lies outside and never changed was not written: padding.
        """
        if self.dtype not in CODED_DTYPES:
            return f"the loader writes it, and {str(self.dtype).removeprefix('torch.')} can't carry a code"
        found = sum(r.height * r.width for r in self.rectangles)
        if copied < max(found, 1) or len(self._rest) > 1:
            return f"{self.numel - copied} of {self.numel} elements are computed by the loader, not copied"
        return ""

    def _outside(self, tensor: Tensor) -> tuple[int, int]:
        places = [
            Box(Pair(r.height, r.width), at, local_offset=at) for r in self.rectangles for at in [r.corner]
        ]
        if sum(place.count for place in places) == tensor.numel():
            return (0, 0)
        return print_of_rest(tensor, places)

    def _refine(self, plane: Plane, digits: Tensor) -> None:
        """Cut by a higher digit of the tensors' numbers."""
        refined = []
        for old in self.rectangles:
            for new in _constant_rectangles(old.cut(digits), old.height):
                number = old.number + new.number * BASE**plane.digit
                intact = old.intact & (new.number >= 0)
                refined.append(
                    Rectangle(old.top + new.top, old.left + new.left, new.height, new.width, number, intact)
                )
        self.rectangles = refined

    def boxes(self) -> Iterator[tuple[int, Box]]:
        """``(number of the HF tensor, box)`` of everything that was copied."""
        found: dict[int, list[Box]] = {}
        for r in self.rectangles:
            if r.copied:
                found.setdefault(r.number, []).extend(_boxes(r))
        for number, boxes in found.items():
            for box in _joined(boxes):
                yield number, box


def _constant_rectangles(digits: Tensor, slab: int) -> list[Rectangle]:
    """Cut into rectangles of one digit each: bands of equal rows, none over a multiple of `slab` rows; then runs inside
    a band's first row."""
    rows, cols = digits.shape
    if not rows or not cols:
        return []
    new_band = torch.ones(rows, dtype=torch.bool, device=digits.device)
    new_band[1:] = (digits[1:] != digits[:-1]).any(1)
    new_band[::slab] = True
    tops = new_band.nonzero()[:, 0].tolist()
    out = []
    for top, bottom in zip(tops, [*tops[1:], rows], strict=True):
        first = digits[top]
        new_run = torch.ones(cols, dtype=torch.bool, device=digits.device)
        new_run[1:] = first[1:] != first[:-1]
        lefts = new_run.nonzero()[:, 0].tolist()
        for left, right in zip(lefts, [*lefts[1:], cols], strict=True):
            out.append(Rectangle(top, left, bottom - top, right - left, int(first[left])))
    return out


def _boxes(r: Rectangle) -> Iterator[Box]:
    """Rows down and columns across is the usual way; the other one is a tensor held transposed."""
    rows, columns = r.rows, r.columns
    if rows.same_across and columns.same_down:
        transposed, row_numbers, column_numbers, local = False, rows.down, columns.across, Pair(r.top, r.left)
    elif rows.same_down and columns.same_across:
        transposed, row_numbers, column_numbers, local = True, rows.across, columns.down, Pair(r.left, r.top)
    else:
        return
    for row_at, row, height, row_step in _runs(row_numbers):
        for column_at, column, width, column_step in _runs(column_numbers):
            yield Box(
                size=Pair(height, width),
                offset=Pair(row, column),
                stride=Pair(row_step, column_step),
                local_offset=Pair(local.rows + row_at, local.cols + column_at),
                transposed=transposed,
            )


def _joined(boxes: list[Box]) -> Iterator[Box]:
    """Boxes that go on where the one before ends, in both tensors, as one: matrices of a stack, say."""
    last: Box | None = None
    for box in boxes:
        if last is not None and _goes_on(last, box):
            size = Pair(last.size.rows + box.size.rows, last.size.cols)
            last = Box(size, last.offset, last.stride, last.local_offset, last.local_stride, last.transposed)
            continue
        if last is not None:
            yield last
        last = box
    if last is not None:
        yield last


def _goes_on(last: Box, box: Box) -> bool:
    rows = last.size.rows
    return (
        not last.transposed
        and not box.transposed
        and last.stride == box.stride
        and last.size.cols == box.size.cols
        and last.offset.cols == box.offset.cols
        and last.local_offset.cols == box.local_offset.cols
        and last.offset.rows + rows * last.stride.rows == box.offset.rows
        and last.local_offset.rows + rows == box.local_offset.rows
    )


def _runs(numbers: Tensor | None) -> Iterator[tuple[int, int, int, int]]:
    """Cut into runs with one positive step: ``(index, first number, length, step)``, each as long as can be."""
    assert numbers is not None
    values = numbers.cpu().numpy()
    steps = np.diff(values)
    # Where the step changes: a run ends there at the latest.
    changes = [*(np.flatnonzero(steps[1:] != steps[:-1]) + 1).tolist(), len(steps)]
    start = 0
    while start < len(values):
        step = int(steps[start]) if start < len(steps) else 0
        end = changes[bisect.bisect_right(changes, start)] + 1 if step > 0 else start + 1
        yield start, int(values[start]), end - start, step if end - start > 1 else 1
        start = end
