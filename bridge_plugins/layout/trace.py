"""What the planes leave behind in one local tensor, reduced to blocks as they come: no plane is ever kept."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.layout.boxes import boxes_of, joined
from bridge_plugins.layout.codes import BASE, CODED_DTYPES, decode
from bridge_plugins.layout.planes import TENSOR, Plane
from bridge_plugins.layout.prints import print_of_rest
from bridge_plugins.layout.reachable import dense
from bridge_plugins.layout.rectangle import Rectangle, constant_rectangles


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
            self.rectangles = [r for r in constant_rectangles(digits, slab) if r.number >= 0]
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
            for new in constant_rectangles(old.cut(digits), old.height):
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
                found.setdefault(r.number, []).extend(boxes_of(r))
        for number, boxes in found.items():
            for box in joined(boxes):
                yield number, box
