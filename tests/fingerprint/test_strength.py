"""Nothing that changes a bit is missed, by either lane: 10,000 random corruptions of each kind at full width."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.random import Generator
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint import Digest, fingerprint, fingerprint_many, tensor_term
from bridge_plugins.fingerprint.cpu.run import measure
from bridge_plugins.fingerprint.formats import format_of
from bridge_plugins.fingerprint.geometry import ADDRESS, ROW_OFFSET
from tests.fingerprint.corruptions import CORRUPTIONS, Corruption

Lanes = NDArray[Any]

# One of each width; packed 4-bit values are bytes.
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.bool]

often = pytest.mark.parametrize("times", [10, pytest.param(10_000, marks=pytest.mark.full)])


def weights(dtype: torch.dtype, generator: Generator) -> Tensor:
    if dtype == torch.uint8:
        return torch.from_numpy(generator.integers(0, 256, (16, 16), np.uint8))
    values = torch.from_numpy(generator.standard_normal((16, 16)) * 0.5)
    return values > 0 if dtype == torch.bool else values.to(dtype)


def lanes_of(tensors: list[Tensor], first_row: int | Lanes = 0) -> Lanes:
    """n × 2, of tensors of one shape and dtype, by the kernel itself: a Part for each would take most of the time.

    first_row: where each lies in its whole.
    """
    held = format_of(tensors[0].dtype)
    stacked = torch.stack([tensor.view(held.integer) for tensor in tensors])
    n, rows, cols = stacked.shape
    table = np.tile(np.array([0, cols * held.bytes, held.bytes, rows, cols, 0, 1, 0, 1]), (n, 1))
    table[:, ADDRESS] = stacked.data_ptr() + np.arange(n) * rows * cols * held.bytes
    table[:, ROW_OFFSET] = first_row
    return measure(table, held, held, statistics=False).lanes


def test_lanes_are_the_fingerprints() -> None:
    tensors = [torch.randn(4, 16).bfloat16() for _ in range(3)]
    expected = [fingerprint(tensor, row_offset=row).lanes for row, tensor in enumerate(tensors)]
    assert [tuple(lanes) for lanes in lanes_of(tensors, np.arange(3)).tolist()] == expected


def missed(some: Lanes, others: Lanes) -> int:
    """How many a lane takes for equal: either alone would do."""
    return int((some == others).any(1).sum())


@often
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_corruptions_are_seen(corrupt: Corruption, dtype: torch.dtype, times: int) -> None:
    generator = np.random.default_rng(times)
    integer = format_of(dtype).integer
    tensors: list[Tensor] = []
    while len(tensors) < 2 * times:
        tensor = weights(dtype, generator)
        other = corrupt(tensor, generator)
        if not torch.equal(tensor.view(integer), other.view(integer)):
            tensors += [tensor, other]
    lanes = lanes_of(tensors)
    assert missed(lanes[::2], lanes[1::2]) == 0


@often
def test_exchanged_experts_change_a_layer(times: int) -> None:
    generator = np.random.default_rng(times)
    lanes = [
        found.lanes for found in fingerprint_many([weights(torch.bfloat16, generator) for _ in range(64)])
    ]

    def layer(experts: list[int]) -> tuple[int, int]:
        terms = (
            tensor_term(f"mlp.experts.{e}.up_proj.weight", "bfloat16", (16, 16), lanes[expert])
            for e, expert in enumerate(experts)
        )
        return sum(terms, Digest()).lanes

    some, changed = [], []
    for _ in range(times):
        experts = generator.choice(64, 8, replace=False).tolist()
        a, b = generator.choice(8, 2, replace=False).tolist()
        others = experts.copy()
        others[a], others[b] = experts[b], experts[a]
        some.append(layer(experts))
        changed.append(layer(others))
    assert missed(np.array(some, np.uint64), np.array(changed, np.uint64)) == 0


@often
def test_same_values_in_another_dtype(times: int) -> None:
    generator = np.random.default_rng(times)
    values = [weights(torch.bfloat16, generator) for _ in range(times)]
    assert missed(lanes_of(values), lanes_of([tensor.float() for tensor in values])) == 0


@often
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_part_twice_or_left_out_or_both(dtype: torch.dtype, times: int) -> None:
    """With both, as many elements are counted as the tensor has."""
    generator = np.random.default_rng(times)
    tensors = [weights(dtype, generator) for _ in range(times)]
    quarters = [tensor[row : row + 4] for tensor in tensors for row in range(0, 16, 4)]
    parts = lanes_of(quarters, np.tile(np.arange(0, 16, 4), times)).reshape(times, 4, 2)
    whole = lanes_of(tensors)
    assert (parts.sum(1, dtype=np.uint64) == whole).all()
    one, other = generator.permuted(np.tile(np.arange(4), (times, 1)), axis=1)[:, :2].T
    twice, left_out = parts[np.arange(times), one], parts[np.arange(times), other]
    for wrong in (whole + twice, whole - left_out, whole + twice - left_out):
        assert missed(whole, wrong) == 0


def test_a_part_twice_or_left_out_is_not_complete() -> None:
    tensor = torch.randn(8, 8)
    halves = [fingerprint(tensor[:4]), fingerprint(tensor[4:], row_offset=4)]
    for wrong in (halves[0], halves[0] + halves[0], halves[0] + halves[1] + halves[1]):
        assert not wrong.coverage.check(tensor.shape).complete
