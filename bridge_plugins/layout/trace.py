"""What the planes leave behind in one local tensor, reduced to blocks as they come: no plane is ever kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.layout.codes import BASE, decode
from bridge_plugins.layout.planes import ROW, TENSOR, Plane


@dataclass
class Numbers:
    """The HF row (or column) numbers of a rectangle: down its first column, and across its first row."""

    down: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int64))
    across: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.int64))
    same_across: bool = True  #: every row of the rectangle repeats one number
    same_down: bool = True  #: every column does

    def see(self, digits: Tensor, weight: int) -> None:
        """Add one digit of the numbers."""
        self.same_across &= bool((digits == digits[:, :1]).all())
        self.same_down &= bool((digits == digits[:1, :]).all())
        self.down = self.down + digits[:, 0].to(torch.int64).cpu() * weight
        self.across = self.across + digits[0, :].to(torch.int64).cpu() * weight


@dataclass
class Rectangle:
    """A rectangle of a local tensor that one HF tensor fills: that tensor's number, and which HF rows and columns."""

    top: int
    left: int
    height: int
    width: int
    number: int
    copied: bool = True
    rows: Numbers = field(default_factory=Numbers)
    columns: Numbers = field(default_factory=Numbers)

    def cut(self, digits: Tensor) -> Tensor:
        return digits[self.top : self.top + self.height, self.left : self.left + self.width]

    def see(self, plane: Plane, digits: Tensor) -> None:
        self.copied &= bool((digits >= 0).all())
        (self.rows if plane.number == ROW else self.columns).see(digits, BASE**plane.digit)


@dataclass
class Trace:
    """One local tensor, through all planes. Call `see` once after each plane, in their order, then `boxes`."""

    rectangles: list[Rectangle] = field(default_factory=list)
    written: int = 0  #: elements that the loader wrote
    seen: bool = False

    def see(self, plane: Plane, tensor: Tensor) -> None:
        """Read the digits that loading `plane` left in `tensor`, which was all zeros before the first plane.

        It may have any rank, and is seen as rows × last dimension.
        """
        size = rows_and_cols(tensor.shape)
        digits = decode(tensor.detach().reshape(size), plane.code)
        if plane.number != TENSOR:
            for rectangle in self.rectangles:
                rectangle.see(plane, rectangle.cut(digits))
        elif not self.seen:
            self.seen, self.written = True, int((tensor != 0).sum())
            self.rectangles = [r for r in _constant_rectangles(digits) if r.number >= 0]
        elif plane.digit == 0:
            # The other code: where the same digit doesn't come back, the loader computed something.
            for rectangle in self.rectangles:
                rectangle.copied = bool((rectangle.cut(digits) == rectangle.number).all())
        else:
            self._refine(plane, digits)

    def _refine(self, plane: Plane, digits: Tensor) -> None:
        """Cut by a higher digit of the tensors' numbers."""
        refined = []
        for old in self.rectangles:
            for new in _constant_rectangles(old.cut(digits)):
                number = old.number + new.number * BASE**plane.digit
                copied = old.copied and new.number >= 0
                refined.append(
                    Rectangle(old.top + new.top, old.left + new.left, new.height, new.width, number, copied)
                )
        self.rectangles = refined

    def boxes(self) -> Iterator[tuple[int, Box]]:
        """``(number of the HF tensor, box)`` of everything that was copied."""
        for r in self.rectangles:
            if r.copied:
                for box in _boxes(r):
                    yield r.number, box


def _constant_rectangles(digits: Tensor) -> list[Rectangle]:
    """Cut into rectangles of one digit each: bands of equal rows, then runs inside a band's first row."""
    rows, cols = digits.shape
    if not rows or not cols:
        return []
    new_band = torch.ones(rows, dtype=torch.bool, device=digits.device)
    new_band[1:] = (digits[1:] != digits[:-1]).any(1)
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


def _runs(numbers: Tensor) -> Iterator[tuple[int, int, int, int]]:
    """Cut into runs with one positive step: ``(index, first number, length, step)``, each as long as can be."""
    values = numbers.tolist()
    start = 0
    while start < len(values):
        end = start + 1
        step = values[end] - values[start] if end < len(values) else 1
        if step > 0:
            while end < len(values) and values[end] - values[end - 1] == step:
                end += 1
        yield start, values[start], end - start, max(step, 1) if end - start > 1 else 1
        start = end
