"""The numba path against the reference, bit for bit."""

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.fingerprint import Part, fingerprint_many
from bridge_plugins.fingerprint.backend import Backend, backend_of
from bridge_plugins.fingerprint.cpu.run import measure
from bridge_plugins.fingerprint.formats import Format, Kind
from bridge_plugins.fingerprint.geometry import geometry
from bridge_plugins.fingerprint.part import resolve
from tests.fingerprint.cases import FORMATS, assert_same, boxes, by_definition, random_bits, seeds, tensors


def check(part: Part, statistics: bool = True) -> None:
    assert backend_of(resolve(part)) is Backend.CPU
    assert_same(fingerprint_many([part], statistics=statistics)[0], by_definition(part, statistics))


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(tensors(), st.booleans())
def test_any_tensor(tensor: Tensor, statistics: bool) -> None:
    check(Part(tensor), statistics)


@settings(deadline=None, max_examples=100)
@given(st.data(), st.sampled_from(FORMATS), st.integers(1, 30), st.integers(1, 60), seeds)
def test_any_block_at_any_place(data: st.DataObject, taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    check(Part(tensor, data.draw(boxes(tensor))))


@pytest.mark.full
@settings(deadline=None, max_examples=10_000)
@given(tensors(), st.booleans())
def test_any_tensor_at_length(tensor: Tensor, statistics: bool) -> None:
    check(Part(tensor), statistics)


@pytest.mark.parametrize("taken", FORMATS, ids=lambda taken: taken.name)
def test_every_dtype_in_long_rows(taken: Format) -> None:
    tensor = random_bits((9, 4200), taken, 1)
    tensor.view(taken.integer)[2] = 0
    check(Part(tensor))


@pytest.mark.parametrize(
    "taken", [f for f in FORMATS if f.kind in (Kind.IEEE, Kind.FN)], ids=lambda f: f.name
)
def test_weights_with_zeros_infinities_and_extremes(taken: Format) -> None:
    values = torch.randn(9, 1200) * 0.02
    values[3, 5] = 0.0
    values[4] = 0.0
    weights = values.to(taken.dtype)
    check(Part(weights))
    weights[7, :3] = torch.tensor([float("nan"), float("inf"), -0.0]).to(taken.dtype)
    check(Part(weights))
    for scale in (1e-38, 1e-20, 1e20, 1e37):
        check(Part((values * scale).to(taken.dtype)))


def test_threads_change_nothing() -> None:
    tensor = torch.randn(3000, 2049).bfloat16()
    block = resolve(Part(tensor))
    table = geometry([block])
    one, four = (measure(table, block.held, block.taken, threads=n) for n in (1, 4))
    assert one.lanes.tolist() == four.lanes.tolist()
    assert one.sum_of_squares.tolist() == four.sum_of_squares.tolist()
    assert_same(fingerprint_many([tensor])[0], by_definition(Part(tensor)))


def test_sum_of_squares_repeats() -> None:
    tensor = torch.randn(500, 777)
    first, second = (fingerprint_many([tensor])[0].statistics for _ in range(2))
    assert first is not None
    assert first == second
