"""Which elements of a tensor a sum of parts holds, and how often each: a gap and an overlap don't cancel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from bridge_plugins.fingerprint.box import Box, Pair

Weighted = tuple[Box, int]


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """How parts cover a tensor. Counts are elements; `first` is a (row, column) with a fault."""

    missing: int = 0
    repeated: int = 0
    outside: int = 0
    first: Pair | None = None

    @property
    def complete(self) -> bool:
        """Every element is there exactly once, and nothing else."""
        return not (self.missing or self.repeated or self.outside)

    def __str__(self) -> str:
        if self.complete or self.first is None:
            return "complete"
        counts = (self.missing, "missing"), (self.repeated, "repeated"), (self.outside, "outside the shape")
        said = ", ".join(f"{count} elements {fault}" for count, fault in counts if count)
        return f"{said} (first at row {self.first.rows}, column {self.first.cols})"


@dataclass(frozen=True, slots=True, eq=False)
class Coverage:
    """A multiset of elements, kept as boxes. Two are equal if they hold the same elements equally often."""

    boxes: tuple[Box, ...] = field(default=())

    @property
    def count(self) -> int:
        """Elements held; one that is there twice counts twice."""
        return sum(box.count for box in self.boxes)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.boxes + other.boxes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Coverage):
            return NotImplemented
        if self.boxes == other.boxes:
            return True
        if self.count != other.count:
            return False
        signed = [(box, 1) for box in merged(self.boxes)] + [(box, -1) for box in merged(other.boxes)]
        return all(times == 0 for _, _, times in regions(signed))

    def __hash__(self) -> int:
        return hash(self.count)

    def check(self, shape: Sequence[int]) -> CoverageReport:
        """Compare with every element of a tensor of `shape` (any rank) once."""
        whole = Box(rows_and_cols(shape))
        boxes = merged(self.boxes)
        if boxes == (whole,) or not (boxes or whole.count):
            return CoverageReport()
        missing = repeated = outside = 0
        first: Pair | None = None
        for corner, size, times in regions([(box, 1) for box in boxes] + [(whole, 0)]):
            if corner.rows >= whole.size.rows or corner.cols >= whole.size.cols:
                outside += size * times
                fault = times > 0
            else:
                missing += size * (times == 0)
                repeated += size * (times > 1)
                fault = times != 1
            if fault and first is None:
                first = corner
        return CoverageReport(missing, repeated, outside, first)


def rows_and_cols(shape: Sequence[int]) -> Pair:
    """A shape seen as rows × last dimension: () is 1 × 1, (n,) is 1 × n."""
    return Pair(math.prod(shape[:-1]), shape[-1]) if shape else Pair(1, 1)


def merged(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """The same elements in fewer boxes: neighbours along the rows, then along the columns, become one."""
    boxes = tuple(box for box in boxes if box.count)
    if len(boxes) < 2:
        return boxes
    return _merge_along(1, _merge_along(0, boxes))


def _merge_along(axis: int, boxes: Iterable[Box]) -> tuple[Box, ...]:
    across = 1 - axis

    def order(box: Box) -> tuple[int, ...]:
        same = (box.offset[across], box.size[across], box.stride[across], box.stride[axis])
        return (*same, box.offset[axis] % box.stride[axis], box.offset[axis])

    out: list[Box] = []
    for box in sorted(boxes, key=order):
        last = out[-1] if out else None
        aligned = last is not None and order(last)[:-1] == order(box)[:-1]
        if last and aligned and last.offset[axis] + last.size[axis] * last.stride[axis] == box.offset[axis]:
            size = list(last.size)
            size[axis] += box.size[axis]
            out[-1] = Box(Pair(*size), last.offset, last.stride)
        else:
            out.append(box)
    return tuple(out)


def regions(boxes: Sequence[Weighted]) -> Iterator[tuple[Pair, int, int]]:
    """Cut the plane into classes of elements that lie in the same boxes.

    Yields for each class that some box reaches: its first (row, column), its number of elements, and the sum
    of the weights of the boxes that hold it.
    """
    for row, rows in _classes(boxes, 0):
        here = [(box, weight) for box, weight in boxes if _holds(box, 0, row)]
        for col, cols in _classes(here, 1):
            times = [weight for box, weight in here if _holds(box, 1, col)]
            if times:
                yield Pair(row, col), rows * cols, sum(times)


def _classes(boxes: Sequence[Weighted], axis: int) -> Iterator[tuple[int, int]]:
    """Classes of rows (or columns) that lie in the same boxes: (first index, how many indices)."""
    solid = [box for box, _ in boxes if box.count]
    edges = sorted({box.offset[axis] for box in solid} | {box.end(axis) for box in solid})
    for start, stop in itertools.pairwise(edges):
        # Between two edges membership repeats with the least common multiple of the strides at work there.
        strides = {b.stride[axis] for b in solid if b.offset[axis] <= start and b.end(axis) >= stop}
        period = math.lcm(*strides)
        for index in range(start, min(start + period, stop)):
            yield index, len(range(index, stop, period))


def _holds(box: Box, axis: int, index: int) -> bool:
    steps, off = divmod(index - box.offset[axis], box.stride[axis])
    return off == 0 and 0 <= steps < box.size[axis]
