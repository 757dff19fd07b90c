"""A gap and an overlap don't cancel, and coverage is what counting elements one by one gives."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge_plugins.fingerprint import Box, Coverage, fingerprint

small_boxes = st.builds(
    Box,
    size=st.tuples(st.integers(0, 5), st.integers(0, 5)),
    offset=st.tuples(st.integers(0, 6), st.integers(0, 6)),
    stride=st.tuples(st.integers(1, 4), st.integers(1, 4)),
)
covers = st.lists(small_boxes, max_size=6).map(lambda boxes: Coverage(tuple(boxes)))


def counted(coverage: Coverage) -> np.ndarray:
    """How often each element is there, one by one."""
    cells = np.zeros((40, 40), int)
    for box in coverage.boxes:
        for i in range(box.size.rows):
            for j in range(box.size.cols):
                cells[box.offset.rows + i * box.stride.rows, box.offset.cols + j * box.stride.cols] += 1
    return cells


@settings(deadline=None, max_examples=300)
@given(covers, st.integers(0, 12), st.integers(0, 12))
def test_check_counts_elements(coverage: Coverage, rows: int, cols: int) -> None:
    cells = counted(coverage)
    report = coverage.check((rows, cols))
    inside = cells[:rows, :cols]
    assert report.missing == (inside == 0).sum()
    assert report.repeated == (inside > 1).sum()
    assert report.outside == cells.sum() - inside.sum()
    assert report.complete == (bool((inside == 1).all()) and report.outside == 0)
    if report.first is not None:
        at = report.first
        outside = at.rows >= rows or at.cols >= cols
        assert cells[at] > 0 if outside else cells[at] != 1


@settings(deadline=None, max_examples=300)
@given(covers, covers)
def test_equal_means_the_same_elements(a: Coverage, b: Coverage) -> None:
    assert (a == b) == bool((counted(a) == counted(b)).all())
    assert a + b == b + a
    if a == b:
        assert hash(a) == hash(b)


def test_gap_and_overlap_do_not_cancel() -> None:
    tensor = torch.zeros(6, 4)  # zeros: the lanes see neither
    twice = fingerprint(tensor[:2]) + fingerprint(tensor[:2]) + fingerprint(tensor[4:], row_offset=4)
    assert twice.count == tensor.numel()
    assert twice.lanes == fingerprint(tensor).lanes
    assert twice != fingerprint(tensor)
    report = twice.coverage.check(tensor.shape)
    assert (report.missing, report.repeated, report.outside) == (8, 8, 0)
    assert str(report) == "8 elements missing, 8 elements repeated (first at row 0, column 0)"


def test_many_parts_stay_quick_and_right() -> None:
    """128 experts of gate and up at stride 2, of a stacked tensor."""
    boxes = [Box((8, 64), (16 * e + i, 0), (2, 1)) for e in range(128) for i in (0, 1)]
    assert Coverage(tuple(boxes)).check((128, 16, 64)).complete
    assert Coverage(tuple(boxes[1:])).check((128, 16, 64)).missing == 8 * 64
