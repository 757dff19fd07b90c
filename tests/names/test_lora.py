"""Fault A to the end: the merged export carries each expert's own adapter, on every rank."""

from __future__ import annotations

from typing import Any

import pytest

from tests.names.adapters import expert_of
from tests.stacks.models import WHOLE_DEEPSEEK, Checkpoint
from tests.stacks.ranks import Ranks

MERGED = "tests.names.test_lora:merged"
FC = ["linear_fc1", "linear_fc2"]
ALL = ["linear_qkv", "linear_proj", *FC]
SPLIT_FC = ["linear_fc1_up", "linear_fc1_gate", "linear_fc2"]
SPLIT_ALL = ["linear_q", "linear_k", "linear_v", "linear_proj", *SPLIT_FC]
CLOSE = 0.26  #: bf16 keeps 8 bits, the largest sum is below 80; adapters differ by 0.5 at least


def merged(
    checkpoint: str, topology: dict[str, Any], lora: str, modules: list[str], grouped: bool, off: list[str]
) -> dict[str, float]:
    """By merged HF tensor: how far it is from (its own base weight + its own adapter), at most."""
    from safetensors.torch import load_file

    import bridge_plugins
    from bridge_plugins.topology import Topology
    from tests.names import adapters

    for patch in off:
        bridge_plugins.load().revert(patch)
    sizes = Topology(**topology)
    trainer = adapters.filled(checkpoint, sizes, lora, modules, linear_in=0.5, moe_grouped_gemm=grouped)
    shared = adapters.EXPERTS // sizes.ep if grouped else 1
    source = load_file(f"{checkpoint}/model.safetensors")
    off_by = {}
    for name, weight in trainer.export().items():
        mark = adapters.wanted(trainer, name, modules, shared)
        added = 0.0 if mark is None else adapters.RANK * 0.5 * mark
        off_by[name] = float((weight.float() - source[name].float() - added).abs().max())
    return off_by


@pytest.mark.parametrize(
    ("family", "topology", "lora", "modules", "grouped"),
    [
        pytest.param("qwen3_moe", {"ep": 2}, "LoRA", FC, False, id="SequentialMLP"),
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2}, "LoRA", ALL, False, id="SequentialMLP with PP"),
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2}, "LoRA", ALL, True, id="grouped with PP"),
        pytest.param("qwen3_moe", {"pp": 2, "ep": 2}, "CanonicalLoRA", SPLIT_ALL, False, id="canonical"),
        pytest.param(
            "qwen3_moe", {"tp": 2, "ep": 2, "etp": 1}, "LoRA", ALL, False,
            id="SequentialMLP with TP", marks=pytest.mark.ci,
        ),
        pytest.param(
            "qwen3_moe", {"pp": 2, "ep": 2}, "CanonicalLoRA", SPLIT_ALL, True,
            id="canonical, grouped", marks=pytest.mark.ci,
        ),
        pytest.param(
            "deepseek_v3", {"pp": 2, "ep": 2}, "CanonicalLoRA", SPLIT_FC, False,
            id="canonical, dense and shared and single experts", marks=[pytest.mark.ci, WHOLE_DEEPSEEK],
        ),
        pytest.param(
            "deepseek_v3", {"pp": 2, "ep": 2}, "LoRA", FC, True,
            id="dense and shared and grouped experts", marks=pytest.mark.ci,
        ),
    ],
)  # fmt: skip
def test_each_expert_gets_its_own_adapter_on_every_rank(
    ranks: Ranks,
    checkpoint: Checkpoint,
    family: str,
    topology: dict[str, Any],
    lora: str,
    modules: list[str],
    grouped: bool,
) -> None:
    for off_by in _run(ranks, checkpoint, family, topology, lora, modules, grouped, []):
        assert len(off_by) > 100
        assert {name: value for name, value in off_by.items() if value > CLOSE} == {}


@pytest.mark.parametrize(
    ("off", "lora", "modules"),
    [
        (["names"], "LoRA", FC),
        (["lora_experts"], "LoRA", FC),
        (["names", "lora_experts"], "LoRA", FC),
        (["lora_experts"], "CanonicalLoRA", SPLIT_FC),
    ],
)
def test_neither_patch_alone_is_enough(
    ranks: Ranks, checkpoint: Checkpoint, off: list[str], lora: str, modules: list[str]
) -> None:
    off_by = _run(ranks, checkpoint, "qwen3_moe", {"ep": 2}, lora, modules, False, off)
    wrong = [{expert_of(name) for name, value in found.items() if value > CLOSE} for found in off_by]
    assert any(wrong), "the fault was not there to be mended"


def _run(
    ranks: Ranks,
    checkpoint: Checkpoint,
    family: str,
    topology: dict[str, Any],
    lora: str,
    modules: list[str],
    grouped: bool,
    off: list[str],
) -> list[dict[str, float]]:
    from bridge_plugins.topology import Topology

    return ranks(
        MERGED,
        world=Topology(**topology).world,
        checkpoint=str(checkpoint(family)),
        topology=topology,
        lora=lora,
        modules=modules,
        grouped=grouped,
        off=off,
    )
