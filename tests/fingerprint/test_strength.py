"""Nothing that changes a bit is missed, by either lane: 10,000 random corruptions of each kind at full width."""

import numpy as np
import pytest
import torch
from numpy.random import Generator
from torch import Tensor

from bridge_plugins.fingerprint import Box, Digest, Part, fingerprint, fingerprint_many, tensor_term
from bridge_plugins.fingerprint.formats import format_of
from tests.fingerprint.corruptions import CORRUPTIONS, Corruption

Lanes = tuple[int, int]

# One of each width; packed 4-bit values are bytes.
DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.uint8, torch.bool]

often = pytest.mark.parametrize("times", [10, pytest.param(10_000, marks=pytest.mark.full)])


def weights(dtype: torch.dtype, generator: Generator) -> Tensor:
    if dtype == torch.uint8:
        return torch.from_numpy(generator.integers(0, 256, (16, 16), np.uint8))
    values = torch.from_numpy(generator.standard_normal((16, 16)) * 0.5)
    return values > 0 if dtype == torch.bool else values.to(dtype)


def missed(pairs: list[tuple[Lanes, Lanes]]) -> int:
    """How many pairs a lane takes for equal: either alone would do."""
    return sum(a[0] == b[0] or a[1] == b[1] for a, b in pairs)


def lanes_of(tensors: list[Tensor] | list[Part]) -> list[Lanes]:
    return [found.lanes for found in fingerprint_many(tensors, statistics=False)]


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
    assert missed(list(zip(lanes[::2], lanes[1::2], strict=True))) == 0


@often
def test_exchanged_experts_change_a_layer(times: int) -> None:
    generator = np.random.default_rng(times)
    lanes = lanes_of([weights(torch.bfloat16, generator) for _ in range(64)])

    def layer(experts: list[int]) -> Lanes:
        terms = (
            tensor_term(f"mlp.experts.{e}.up_proj.weight", "bfloat16", (16, 16), lanes[expert])
            for e, expert in enumerate(experts)
        )
        return sum(terms, Digest()).lanes

    pairs = []
    for _ in range(times):
        experts = generator.choice(64, 8, replace=False).tolist()
        a, b = generator.choice(8, 2, replace=False).tolist()
        others = experts.copy()
        others[a], others[b] = experts[b], experts[a]
        pairs.append((layer(experts), layer(others)))
    assert missed(pairs) == 0


@often
def test_same_values_in_another_dtype(times: int) -> None:
    generator = np.random.default_rng(times)
    values = [weights(torch.bfloat16, generator) for _ in range(times)]
    wide = lanes_of([tensor.float() for tensor in values])
    assert missed(list(zip(lanes_of(values), wide, strict=True))) == 0


@often
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_part_twice_or_left_out_or_both(dtype: torch.dtype, times: int) -> None:
    """With both, as many elements are counted as the tensor has."""
    generator = np.random.default_rng(times)
    tensors = [weights(dtype, generator) for _ in range(times)]
    parts = [Part(t[row : row + 4], Box((4, 16), (row, 0))) for t in tensors for row in range(0, 16, 4)]
    lanes = lanes_of(parts)
    pairs = []
    for i, whole in enumerate(lanes_of(tensors)):
        quarters = lanes[4 * i : 4 * i + 4]
        a, b = (quarters[j] for j in generator.choice(4, 2, replace=False).tolist())
        for change in ([a], [(-b[0], -b[1])], [a, (-b[0], -b[1])]):
            wrong = [sum(quarter[lane] for quarter in quarters + change) % 2**64 for lane in (0, 1)]
            pairs.append((whole, (wrong[0], wrong[1])))
    assert missed(pairs) == 0


def test_a_part_twice_or_left_out_is_not_complete() -> None:
    tensor = torch.randn(8, 8)
    halves = [fingerprint(tensor[:4]), fingerprint(tensor[4:], row_offset=4)]
    for wrong in (halves[0], halves[0] + halves[0], halves[0] + halves[1] + halves[1]):
        assert not wrong.coverage.check(tensor.shape).complete
