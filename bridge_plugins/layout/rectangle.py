"""A rectangle of a local tensor that one HF tensor fills, and the numbers that the planes leave in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Pair
from bridge_plugins.layout.codes import BASE
from bridge_plugins.layout.planes import ROW, Plane


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


def constant_rectangles(digits: Tensor, slab: int) -> list[Rectangle]:
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
