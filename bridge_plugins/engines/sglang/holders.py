"""Who holds what in an engine: its ranks agree, once, on one holder of each part of each HF tensor.

The primary holder of a part is the lowest rank that has it, and counts in digest P, which adds up to the trainer's.
The others are replicas. Each one's term times its own key goes into digest X, and the primary takes the same off again
for each of them: X adds up to zero exactly if all hold the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.engines.sglang.cut import cut_at, edges_of
from bridge_plugins.fingerprint import Box, Coverage
from bridge_plugins.layout.probe import Block
from bridge_plugins.layout.sources import Source

Places = NDArray[np.int64]
"""One row per block: number of the HF tensor; rows, columns; row and column offsets; row and column strides."""

LANES = 2


@dataclass(frozen=True, eq=False)
class Agreement:
    """What this rank has to do with its blocks.

    Attributes:
        blocks: this rank's, cut where another rank's end, so that parts are equal or disjoint.
        whole: per HF tensor, whether the primary holders' parts are all of it, each element once.
        primary: per block of a tensor that is whole, whether this rank stands for it; False for the others.
        weights: uint64, blocks × 2; what the block's term is multiplied with in digest X.
    """

    blocks: tuple[Block, ...]
    whole: NDArray[np.bool_]
    primary: NDArray[np.bool_]
    weights: NDArray[np.uint64]


def places(blocks: Sequence[Block], numbers: dict[str, int]) -> Places:
    """Where `blocks` lie; `numbers` gives the HF tensors'."""
    rows = [
        (numbers[block.source.name], *block.box.size, *block.box.offset, *block.box.stride)
        for block in blocks
    ]
    return np.array(rows, np.int64).reshape(-1, 7)


def agree(
    blocks: Sequence[Block], rank: int, everyones: Sequence[Places], sources: Sequence[Source]
) -> Agreement:
    """The same decision on every rank, from the same knowledge.

    Args:
        blocks: this rank's.
        rank: its number in `everyones`.
        everyones: the places of every rank's blocks, each in the order of that rank's blocks.
        sources: the HF tensors, in the order of their numbers.
    """
    numbers = {source.name: number for number, source in enumerate(sources)}
    whole = _whole(np.concatenate(everyones), sources)
    if not whole.all():
        # Parts that overlap and aren't equal (a vocabulary held whole here and split there): cut all at all edges.
        edges = edges_of(np.concatenate(everyones), ~whole)
        everyones = [cut_at(rows, edges)[0] for rows in everyones]
        blocks = _cut_blocks(blocks, edges, numbers)
        whole = _whole(np.concatenate(everyones), sources)
    mine = slice(sum(map(len, everyones[:rank])), sum(map(len, everyones[: rank + 1])))
    primary, weights = _roles(everyones)
    listed = np.array([numbers[block.source.name] for block in blocks], np.int64)
    counted = whole[listed] if len(listed) else np.zeros(0, bool)
    return Agreement(
        tuple(blocks), whole, primary[mine] & counted, np.where(counted[:, None], weights[mine], np.uint64(0))
    )


def _cut_blocks(
    blocks: Sequence[Block], edges: dict[int, tuple[Places, Places]], numbers: dict[str, int]
) -> list[Block]:
    rows, origins = cut_at(places(blocks, numbers), edges)
    out = []
    for (_, height, width, row, col, *_rest), origin in zip(rows.tolist(), origins.tolist(), strict=True):
        block = blocks[origin]
        box = block.box
        if (height, width) != box.size:
            down, across = (
                (row - box.offset.rows) // box.stride.rows,
                (col - box.offset.cols) // box.stride.cols,
            )
            local = (
                box.local_offset.rows + down * box.local_stride.rows,
                box.local_offset.cols + across * box.local_stride.cols,
            )
            cut = Box((height, width), (row, col), box.stride, local, box.local_stride, box.transposed)  # type: ignore[arg-type]
            block = replace(block, box=cut)
        out.append(block)
    return out


def _whole(rows: Places, sources: Sequence[Source]) -> NDArray[np.bool_]:
    """Which tensors the distinct parts among `rows` cover, each element once."""
    out = np.zeros(len(sources), bool)
    distinct = np.unique(rows, axis=0)
    firsts = np.searchsorted(distinct[:, 0], np.arange(len(sources) + 1))
    known: dict[tuple[tuple[int, ...], bytes], bool] = {}
    for number, source in enumerate(sources):
        parts = distinct[firsts[number] : firsts[number + 1], 1:]
        # Layers and experts repeat each other: few patterns are looked at.
        pattern = (source.shape, parts.tobytes())
        if pattern not in known:
            boxes = tuple(Box((h, w), (r, c), (rs, cs)) for h, w, r, c, rs, cs in parts.tolist())  # type: ignore[arg-type]
            known[pattern] = len(parts) > 0 and Coverage(boxes).check(source.shape).complete
        out[number] = known[pattern]
    return out


def _roles(everyones: Sequence[Places]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
    """For every rank's blocks, one after the other: whether it is the primary one, and its weight in digest X."""
    rows = np.concatenate(everyones)
    ranks = np.repeat(np.arange(len(everyones)), [len(each) for each in everyones])
    primary, weights = np.zeros(len(rows), bool), np.zeros((len(rows), LANES), np.uint64)
    if not len(rows):
        return primary, weights
    order = np.lexsort(rows.T)  # stable: equal parts stay in the order of ranks
    starts = np.ones(len(rows), bool)
    starts[1:] = (rows[order][1:] != rows[order][:-1]).any(1)
    first = np.flatnonzero(starts)
    primary[order[first]] = True
    # A rank may hold a part twice (an output layer that is tied): each copy has a key of its own.
    copy = np.arange(len(rows)) - np.repeat(first, np.diff([*first, len(rows)]))
    keys = np.array(
        [_key(rank, nth) for rank, nth in zip(ranks[order].tolist(), copy.tolist(), strict=True)], np.uint64
    )
    keys[first] = 0
    taken_off = np.add.reduceat(keys, first, axis=0)
    weights[order] = keys
    weights[order[first]] = -taken_off
    return primary, weights


@cache
def _key(rank: int, copy: int) -> tuple[int, int]:
    """Two odd numbers below 2**64, one a lane, for the `copy`-th copy of a part, held by `rank`."""
    spelled = f"bridge_plugins.holder\0{rank}\0{copy}".encode()
    digest = hashlib.blake2b(spelled, digest_size=16).digest()
    return int.from_bytes(digest[:8], "little") | 1, int.from_bytes(digest[8:], "little") | 1
