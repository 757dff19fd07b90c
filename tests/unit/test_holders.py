"""What ranks agree on: one holder of each part, replicas that cancel, parts cut until they are equal or disjoint."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge_plugins.engines.sglang.holders import Agreement, agree, places
from bridge_plugins.fingerprint import Box
from bridge_plugins.layout.probe import Block
from bridge_plugins.layout.sources import Source

SHAPE = (8, 6)
SOURCES = [Source("w", SHAPE, "bfloat16")]
NUMBERS = {"w": 0}


def block(rows: tuple[int, int], cols: tuple[int, int] = (0, 6), **more: tuple[int, int]) -> Block:
    (top, bottom), (left, right) = rows, cols
    box = Box((bottom - top, right - left), (top, left), **more)  # type: ignore[arg-type]
    return Block("p", SOURCES[0], box)


def agreements(*ranks: list[Block]) -> list[Agreement]:
    everyones = [places(blocks, NUMBERS) for blocks in ranks]
    return [agree(blocks, rank, everyones, SOURCES) for rank, blocks in enumerate(ranks)]


def test_the_lowest_rank_stands_for_a_part_and_replicas_cancel() -> None:
    both = agreements([block((0, 5)), block((5, 8))], [block((5, 8))])
    assert [list(one.primary) for one in both] == [[True, True], [False]]
    assert all(one.whole.all() for one in both)
    weights = np.concatenate([one.weights for one in both])
    assert weights[0].tolist() == [0, 0]
    assert (weights[1] + weights[2]).tolist() == [0, 0]
    assert weights[1].all()


def test_a_gap_is_not_whole_and_counts_for_nothing() -> None:
    [one] = agreements([block((0, 5))])
    assert not one.whole.any()
    assert not one.primary.any()
    assert not one.weights.any()


def test_rows_with_a_stride_tile_with_the_others() -> None:
    even = Block("p", SOURCES[0], Box((4, 6), (0, 0), (2, 1)))  # type: ignore[arg-type]
    odd = Block("p", SOURCES[0], Box((4, 6), (1, 0), (2, 1)))  # type: ignore[arg-type]
    assert all(one.whole.all() for one in agreements([even], [odd]))
    # Where they overlap with others there is no edge to cut at: told as not whole, never as right.
    assert not any(one.whole.any() for one in agreements([even], [odd], [block((0, 8))]))


def test_a_cut_block_is_the_same_memory_at_the_same_place() -> None:
    turned = Block("p", SOURCES[0], Box((8, 6), local_offset=(10, 20), transposed=True))  # type: ignore[arg-type]
    mine = agreements([turned], [block((3, 8), (2, 6))])[0]
    assert mine.whole.all()
    assert {(b.box.offset, b.box.size, b.box.local_offset) for b in mine.blocks} >= {
        ((3, 2), (5, 4), (13, 22)),
        ((0, 0), (3, 2), (10, 20)),
    }
    assert all(b.box.transposed for b in mine.blocks)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_world_counts_each_element_once_and_every_replica_against_its_primary(
    data: st.DataObject,
) -> None:
    edges = st.tuples(st.integers(0, 7), st.integers(1, 8)).filter(lambda pair: pair[0] < pair[1])
    sides = st.tuples(st.integers(0, 5), st.integers(1, 6)).filter(lambda pair: pair[0] < pair[1])
    ranks = [
        [block(*at) for at in data.draw(st.lists(st.tuples(edges, sides), min_size=0, max_size=3))]
        for _ in range(data.draw(st.integers(1, 4)))
    ]
    covered = np.zeros(SHAPE, int)
    total = np.zeros((*SHAPE, 2), np.uint64)
    held = np.zeros(SHAPE, int)
    agreed = agreements(*ranks)
    for one in agreed:
        for part, primary, weight in zip(one.blocks, one.primary, one.weights, strict=True):
            (h, w), (r, c) = part.box.size, part.box.offset
            covered[r : r + h, c : c + w] += bool(primary)
            total[r : r + h, c : c + w] += weight
            held[r : r + h, c : c + w] += 1
    assert (held > 0).all() == agreed[0].whole[0]
    if agreed[0].whole[0]:
        assert (covered == 1).all()
        # Equal bits everywhere make zero; since the keys differ, nothing else does.
        assert not total.any()
    else:
        assert not covered.any()


@pytest.mark.parametrize("world", [1, 3])
def test_a_world_that_holds_nothing_agrees_on_that(world: int) -> None:
    assert not any(one.whole.any() for one in agreements(*[[] for _ in range(world)]))
