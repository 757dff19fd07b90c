"""What is a collision, and what isn't: several parameters under one name of the checkpoint."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from bridge_plugins.names.preflight.compare import compare
from bridge_plugins.names.preflight.holdings import Held
from bridge_plugins.names.preflight.source import Source
from bridge_plugins.topology import Topology

BIAS = "model.layers.0.bias"


def kinds(shape: tuple[int, ...] | None, *parts: Held) -> list[str]:
    source = Source("a model", SimpleNamespace(architectures=["A"]), {BIAS: shape}, "a test")
    return [finding.kind for finding in compare(parts, source, Topology())]


def part(whole: str, elements: int, **fields: bool) -> Held:
    return Held(0, 0, 0, whole, whole, (BIAS,), elements=elements, **fields)


def test_parts_that_add_up_to_a_tensor_are_no_collision() -> None:
    assert kinds((2, 8), part("text.bias", 8), part("vision.bias", 8)) == []


def test_packed_experts_are_no_collision() -> None:
    parts = [part(f"experts.{number}", 4, packed=True) for number in range(2)]
    assert kinds((2, 4), *parts) == []


@pytest.mark.parametrize("shape", [(8,), None])
def test_two_whole_tensors_under_one_name_are_a_collision(shape: tuple[int, ...] | None) -> None:
    assert kinds(shape, part("layers.0.bias", 8), part("layers.1.bias", 8)) == ["COLLISION"]


def test_one_parameter_under_two_local_names_is_a_collision() -> None:
    assert kinds((8,), part("layers.0.bias", 8), part("layers.0.bias", 8)) == ["COLLISION"]
