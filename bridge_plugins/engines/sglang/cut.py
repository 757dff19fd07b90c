"""Parts of tensors cut at each other's edges, so that any two are equal or have nothing in common."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]
Edges = dict[int, tuple[Places, Places]]

#: A part that would fall into more pieces than that stays whole.
MOST_PIECES = 256


def edges_of(rows: Places, which: NDArray[np.bool_]) -> Edges:
    """Number of the tensor → the rows and the columns at which its parts begin and end, for the tensors in `which`.

    Args:
        rows: the parts (see `holders.Places`).
        which: per tensor.
    """
    found: Edges = {}
    rows = rows[which[rows[:, 0]]]
    for number in np.unique(rows[:, 0]).tolist():
        mine = rows[rows[:, 0] == number]
        # A part with a stride has no two edges to cut at.
        if (mine[:, 5:] == 1).all():
            found[number] = (
                np.unique([mine[:, 3], mine[:, 3] + mine[:, 1]]),
                np.unique([mine[:, 4], mine[:, 4] + mine[:, 2]]),
            )
    return found


def cut_at(rows: Places, edges: Edges) -> tuple[Places, NDArray[np.int64]]:
    """The pieces in the order of `rows`, and for each the index in `rows` that it comes from."""
    touched = np.isin(rows[:, 0], list(edges))
    pieces, origins = [], []
    for index in np.flatnonzero(touched).tolist():
        number, height, width, top, left, *strides = rows[index].tolist()
        tops, lefts = _between(edges[number][0], top, height), _between(edges[number][1], left, width)
        if len(tops) * len(lefts) > MOST_PIECES:
            tops, lefts = [(top, height)], [(left, width)]
        pieces += [(number, h, w, r, c, *strides) for r, h in tops for c, w in lefts]
        origins += [index] * (len(tops) * len(lefts))
    all_origins = np.concatenate([np.flatnonzero(~touched), np.array(origins, np.int64)])
    all_pieces = np.concatenate([rows[~touched], np.array(pieces, np.int64).reshape(-1, 7)])
    order = np.argsort(all_origins, kind="stable")
    return all_pieces[order], all_origins[order]


def _between(edges: Places, start: int, size: int) -> list[tuple[int, int]]:
    """``(start, size)`` of the pieces of an interval that is cut at `edges`."""
    inside = [start, *edges[(edges > start) & (edges < start + size)].tolist(), start + size]
    return [(low, high - low) for low, high in itertools.pairwise(inside)]
