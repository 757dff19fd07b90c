"""Nothing that changes a bit is missed: 10,000 random corruptions of each kind at full width."""

import numpy as np
import pytest
import torch
from torch import Tensor

from bridge_plugins.fingerprint import Digest, fingerprint, fingerprint_many, tensor_term
from bridge_plugins.fingerprint.formats import format_of
from tests.fingerprint.corruptions import CORRUPTIONS, Corruption

DTYPES = [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.float64]


def weights(dtype: torch.dtype, generator: np.random.Generator) -> Tensor:
    values = generator.standard_normal((16, 16)) * 0.5
    return torch.from_numpy(values).to(dtype)


def missed(corrupt: Corruption, dtype: torch.dtype, times: int) -> int:
    """Of that many corruptions that change a bit, those that a lane misses: either alone would do."""
    generator = np.random.default_rng(times)
    integer = format_of(dtype).integer
    tensors: list[Tensor] = []
    while len(tensors) < 2 * times:
        tensor = weights(dtype, generator)
        other = corrupt(tensor, generator)
        if not torch.equal(tensor.view(integer), other.view(integer)):
            tensors += [tensor, other]
    lanes = [found.lanes for found in fingerprint_many(tensors, statistics=False)]
    return sum(a[0] == b[0] or a[1] == b[1] for a, b in zip(lanes[::2], lanes[1::2], strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_corruptions_are_seen(corrupt: Corruption, dtype: torch.dtype) -> None:
    assert missed(corrupt, dtype, 10) == 0


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("corrupt", CORRUPTIONS, ids=lambda corrupt: corrupt.__name__)
def test_ten_thousand_corruptions_are_seen(corrupt: Corruption, dtype: torch.dtype) -> None:
    assert missed(corrupt, dtype, 10_000) == 0


def test_exchanged_experts_in_a_layer() -> None:
    generator = np.random.default_rng(0)
    experts = [weights(torch.bfloat16, generator) for _ in range(8)]

    def layer(order: list[int]) -> Digest:
        terms = (
            tensor_term(
                f"mlp.experts.{e}.up_proj.weight", "bfloat16", (16, 16), fingerprint(experts[o]).lanes
            )
            for e, o in enumerate(order)
        )
        return sum(terms, Digest())

    seen = {layer(generator.permutation(8).tolist()) for _ in range(200)}
    orders = np.random.default_rng(0)
    [weights(torch.bfloat16, orders) for _ in range(8)]
    assert len(seen) == len({tuple(orders.permutation(8).tolist()) for _ in range(200)})


def test_same_values_in_another_dtype() -> None:
    values = torch.randn(16, 16).bfloat16()
    assert fingerprint(values).lanes != fingerprint(values.float()).lanes


def test_a_part_twice_or_left_out() -> None:
    tensor = torch.randn(8, 8)
    whole = fingerprint(tensor)
    halves = [fingerprint(tensor[:4]), fingerprint(tensor[4:], row_offset=4)]
    for wrong in (halves[0], halves[0] + halves[0], halves[0] + halves[1] + halves[1]):
        assert wrong.lanes != whole.lanes
        assert not wrong.coverage.check(tensor.shape).complete
