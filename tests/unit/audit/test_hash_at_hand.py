"""HASH looks into the checkpoint's tensors, if they can still be read, and tells what is wrong in any case."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bridge_plugins.audit import Expected, WeightAudit
from bridge_plugins.audit.rules import hash as rule

NAMES = [f"model.layers.{layer}.mlp.gate.weight" for layer in range(4)]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({name: torch.randn(8, 16) for name in NAMES}, folder / "model.safetensors")
    return folder


def said(expected: Expected, rounded: dict[str, torch.Tensor]) -> list[str]:
    audit = WeightAudit("tiny", expected=expected)
    for _ in audit.watch(rounded.items()):
        pass
    return [f"{finding.where}: {finding.what}" for finding in audit.finish("1")[1] if finding.rule == "HASH"]


def rounded(expected: Expected) -> dict[str, torch.Tensor]:
    assert expected.tensor is not None
    tensors = {name: expected.tensor(name) for name in NAMES}
    return {name: t.bfloat16().float() for name, t in tensors.items() if t is not None}


def test_what_happened_inside_is_read_off_the_checkpoint(checkpoint: Path) -> None:
    expected = Expected.from_folder(checkpoint)
    assert said(expected, rounded(expected)) == [
        "layers 0-3: gate went through bfloat16: 128 of 128 elements lost bits"
    ]


def test_a_checkpoint_that_has_gone_takes_no_finding_with_it(checkpoint: Path) -> None:
    expected = Expected.from_folder(checkpoint)
    stream = rounded(Expected.from_folder(checkpoint))
    shutil.rmtree(checkpoint)
    assert said(expected, stream) == ["layers 0-3: 4 tensors (gate) are unlike every tensor of the reference"]


def test_no_more_is_read_than_ranks_would_wait_for(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "LOOKED_INTO", 2 * 8 * 16 * 4)
    expected = Expected.from_folder(checkpoint)
    assert said(expected, rounded(expected)) == [
        "layers 0-1: gate went through bfloat16: 128 of 128 elements lost bits",
        "layers 2-3: 2 tensors (gate) are unlike every tensor of the reference",
    ]
