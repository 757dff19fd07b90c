"""Boxes from the numbers in a rectangle: runs with one step, the usual way round or transposed."""

from __future__ import annotations

import bisect
from collections.abc import Iterator

import numpy as np
from torch import Tensor

from bridge_plugins.fingerprint.box import Box, Pair
from bridge_plugins.layout.rectangle import Rectangle


def boxes_of(r: Rectangle) -> Iterator[Box]:
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


def joined(boxes: list[Box]) -> Iterator[Box]:
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
