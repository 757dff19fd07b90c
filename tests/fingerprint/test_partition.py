"""Any split of a tensor sums to the whole, each part weighted at its place."""

import itertools
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.fingerprint import Box, Fingerprint, Part, fingerprint, fingerprint_many
from bridge_plugins.fingerprint.formats import Format
from tests.fingerprint.cases import FORMATS, assert_same, random_bits, seeds


def total(parts: list[Part]) -> Fingerprint:
    first, *others = fingerprint_many(parts)
    return sum(others, first)


def check(tensor: Tensor, parts: list[Part]) -> None:
    whole = fingerprint(tensor)
    summed = total(parts)
    assert_same(summed, whole)
    assert summed.coverage.check(tensor.shape).complete


def cuts(data: st.DataObject, size: int) -> Iterator[tuple[int, int]]:
    """Neighbouring ranges that make up 0 … size."""
    inner = data.draw(st.sets(st.integers(1, max(1, size - 1)), max_size=4))
    edges = sorted({0, size} | {edge for edge in inner if edge < size})
    return itertools.pairwise(edges)


def grid(data: st.DataObject, tensor: Tensor) -> list[Part]:
    rows, cols = tensor.shape
    return [
        Part(tensor[a:b, c:d], Box((b - a, d - c), (a, c)))
        for a, b in cuts(data, rows)
        for c, d in cuts(data, cols)
    ]


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from(FORMATS), st.integers(1, 40), st.integers(1, 70), seeds)
def test_rows_and_columns(data: st.DataObject, taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    check(tensor, data.draw(st.permutations(grid(data, tensor))))


@pytest.mark.full
@settings(deadline=None, max_examples=10_000)
@given(st.data(), st.sampled_from(FORMATS), st.integers(1, 40), st.integers(1, 70), seeds)
def test_no_false_difference_at_length(
    data: st.DataObject, taken: Format, rows: int, cols: int, seed: int
) -> None:
    test_rows_and_columns.hypothesis.inner_test(data, taken, rows, cols, seed)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(FORMATS), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3), seeds)
def test_query_key_value_by_groups(taken: Format, groups: int, heads: int, dim: int, seed: int) -> None:
    """Each HF tensor from a fused one, whose groups hold their query heads, a key head and a value head."""
    per_group = (heads + 2) * dim
    fused = random_bits((groups * per_group, 10), taken, seed)
    grouped = fused.reshape(groups, heads + 2, dim, 10)
    split = {
        "q": (grouped[:, :heads].reshape(-1, 10), 0, heads * dim),
        "k": (grouped[:, heads].reshape(-1, 10), heads * dim, dim),
        "v": (grouped[:, heads + 1].reshape(-1, 10), (heads + 1) * dim, dim),
    }
    for tensor, first, rows in split.values():
        parts = [
            Part(fused, Box((rows, 10), (group * rows, 0), local_offset=(group * per_group + first, 0)))
            for group in range(groups)
        ]
        check(tensor, parts)


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(FORMATS), st.integers(1, 20), st.integers(1, 20), seeds)
def test_gate_and_up_interleaved(taken: Format, rows: int, cols: int, seed: int) -> None:
    """Two local tensors are the even and the odd rows of one HF tensor; and of columns alike."""
    by_rows = random_bits((2 * rows, cols), taken, seed)
    check(
        by_rows,
        [Part(by_rows[i::2].clone(), Box((rows, cols), (i, 0), (2, 1))) for i in (0, 1)],
    )
    by_cols = random_bits((rows, 2 * cols), taken, seed)
    check(by_cols, [Part(by_cols, Box((rows, cols), (0, i), (1, 2), (0, i), (1, 2))) for i in (0, 1)])


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(FORMATS), st.integers(1, 5), st.integers(1, 6), st.integers(1, 9), seeds)
def test_experts_of_a_stacked_tensor(taken: Format, experts: int, rows: int, cols: int, seed: int) -> None:
    stacked = random_bits((experts, rows, cols), taken, seed)
    check(
        stacked,
        [Part(stacked[e].clone(), Box((rows, cols), (e * rows, 0))) for e in reversed(range(experts))],
    )
    for e in range(experts):
        check(stacked[e], [Part(stacked, Box((rows, cols), local_offset=(e * rows, 0)))])


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(FORMATS), st.integers(1, 20), st.integers(2, 20), seeds)
def test_transposed_store(taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    stored = tensor.t().contiguous()
    half = cols // 2
    parts = [
        Part(stored, Box((rows, half), transposed=True)),
        Part(stored, Box((rows, cols - half), (0, half), local_offset=(0, half), transposed=True)),
    ]
    check(tensor, parts)


def test_tensor_parallel_and_held_wider() -> None:
    """A router held in float32 on two ranks, against the bfloat16 that the stream brought."""
    router = torch.randn(16, 64).bfloat16()
    wide = router.float()
    parts = [
        Part(wide[:, 32 * rank : 32 * rank + 32], Box((16, 32), (0, 32 * rank)), torch.bfloat16)
        for rank in (0, 1)
    ]
    check(router, parts)
