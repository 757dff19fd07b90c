"""A factor that is a power of two is told from fingerprints alone."""

from __future__ import annotations

import pytest
import torch

from tests.unit.audit.test_diagnosis_inside import told

NAMES = [
    f"model.layers.{layer}.mlp.experts.{e}.{p}_proj.weight"
    for layer in (0, 1)
    for e in (0, 1)
    for p in ("gate", "up")
]


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn], ids=str
)
@pytest.mark.parametrize("shape", [(16, 8), (7, 5), (9,), (3, 4, 6)], ids=str)
@pytest.mark.parametrize("factor", [2.0, 0.5, 16.0])
def test_every_element_times_a_power_of_two(
    dtype: torch.dtype, shape: tuple[int, ...], factor: float
) -> None:
    right = {name: (1 + torch.rand(shape)).to(dtype) for name in NAMES}
    wrong = {name: (tensor.float() * factor).to(dtype) for name, tensor in right.items()}
    assert told(right, wrong) == [
        f"layers 0-1 experts 0-1: 8 tensors (gate_proj, up_proj) are the reference times {factor:g}"
    ]


def test_zeros_hide_it_from_the_fingerprint_and_not_from_the_tensor() -> None:
    right = {NAMES[0]: torch.randn(16, 16)}
    right[NAMES[0]][3, 4] = 0.0
    wrong = {NAMES[0]: right[NAMES[0]] * 2}
    assert told(right, wrong) == [f"layer 0 expert 0: {NAMES[0]} is unlike every tensor of the reference"]
    assert told(right, wrong, "right") == ["layer 0 expert 0: gate_proj is the reference times 2"]


@pytest.mark.parametrize("factor", [1.5, -2.0])
def test_of_another_factor_fingerprints_tell_nothing(factor: float) -> None:
    right = {NAMES[0]: 1 + torch.rand(16, 16)}
    [said] = told(right, {NAMES[0]: right[NAMES[0]] * factor})
    assert said.endswith("unlike every tensor of the reference")
