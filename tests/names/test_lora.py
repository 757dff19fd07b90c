"""Fault A to the end: the merged export carries each expert's own adapter, on every rank."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

RANK = 4  #: of the adapters; alpha is the same, so that a merge adds B·A as it is


def merged_experts(
    checkpoint: str, topology: dict[str, Any], grouped: bool, off: list[str], modules: list[str]
) -> dict[str, float]:
    """By merged HF tensor: how far it is from (its own base weight + its own adapter), at most.

    Each adapter is filled from its true layer and expert number, so that no two are alike. A grouped
    layer has one adapter per rank for all its experts there.
    """
    import torch
    import torch.distributed as dist
    from megatron.bridge.peft.lora import LoRA
    from safetensors.torch import load_file

    import bridge_plugins
    from bridge_plugins.names.param_name import ParamName
    from bridge_plugins.topology import Topology
    from tests.names import truth
    from tests.stacks.trainer import build

    for patch in off:
        bridge_plugins.load().revert(patch)
    sizes = Topology(**topology)
    trainer = build(
        checkpoint,
        sizes,
        peft=LoRA(target_modules=modules, dim=RANK, alpha=RANK),
        moe_grouped_gemm=grouped,
    )
    here = sizes.coordinates(dist.get_rank())
    for chunk, model in enumerate(trainer.model):
        for local, parameter in model.named_parameters():
            if ".adapter." not in local:
                continue
            name = ParamName.parse(
                truth.global_name(
                    trainer.bridge._model_bridge._unwrap_name(local),
                    sizes,
                    dist.get_rank(),
                    chunk,
                    layers=4,
                    experts=8,
                )
            )
            owner = name.expert if name.expert is not None else here.ep if "experts" in name.parts else 0
            with torch.no_grad():
                parameter.fill_(0.5 if "linear_in" in name.parts else _mark(name.layer, owner))
    source = load_file(f"{checkpoint}/model.safetensors")
    off_by = {}
    for hf_name, weight in trainer.export().items():
        change = weight.float() - source[hf_name].float()
        owner = _expert(hf_name)
        if owner is not None and grouped:
            owner //= 8 // sizes.ep
        layer = int(hf_name.split(".")[2]) if hf_name.startswith("model.layers.") else None
        adapted = layer is not None and _has_adapter(hf_name, modules)
        wanted = RANK * 0.5 * _mark(layer, owner or 0) if adapted else 0.0
        off_by[hf_name] = float((change - wanted).abs().max())
    return off_by


def _mark(layer: int | None, owner: int) -> float:
    return 1.0 + (layer or 0) * 8 + owner


def _expert(hf_name: str) -> int | None:
    parts = hf_name.split(".")
    return int(parts[parts.index("experts") + 1]) if "experts" in parts else None


def _has_adapter(hf_name: str, modules: list[str]) -> bool:
    kinds = {
        "linear_fc1": ("gate_proj", "up_proj"),
        "linear_fc2": ("down_proj",),
        "linear_qkv": ("q_proj", "k_proj", "v_proj"),
        "linear_proj": ("o_proj",),
    }
    return any(kind in hf_name for module in modules for kind in kinds[module])


MERGED = "tests.names.test_lora:merged_experts"
EXPERTS = ["linear_fc1", "linear_fc2"]
ALL = ["linear_qkv", "linear_proj", *EXPERTS]
CLOSE = 0.26  #: bf16 keeps 8 bits, the largest sum is below 80; adapters differ by 2 at least


@pytest.mark.parametrize(
    ("topology", "grouped", "modules"),
    [
        pytest.param({"ep": 2}, False, EXPERTS, id="SequentialMLP"),
        pytest.param({"pp": 2, "ep": 2}, False, ALL, id="SequentialMLP with PP, all linears"),
        pytest.param({"pp": 2, "ep": 2}, True, ALL, id="grouped with PP, all linears"),
        pytest.param({"tp": 2, "ep": 2, "etp": 1}, False, ALL, id="SequentialMLP with TP"),
    ],
)
def test_each_expert_gets_its_own_adapter_on_every_rank(
    ranks: Ranks, checkpoint: Checkpoint, topology: dict[str, Any], grouped: bool, modules: list[str]
) -> None:
    for off_by in _run(ranks, checkpoint, topology, grouped, [], modules):
        assert len(off_by) > 100
        assert {name: value for name, value in off_by.items() if value > CLOSE} == {}


@pytest.mark.parametrize("off", [["names"], ["lora_experts"], ["names", "lora_experts"]])
def test_neither_patch_alone_is_enough(ranks: Ranks, checkpoint: Checkpoint, off: list[str]) -> None:
    off_by = _run(ranks, checkpoint, {"ep": 2}, False, off, EXPERTS)
    wrong = [{_expert(name) for name, value in found.items() if value > CLOSE} for found in off_by]
    assert any(wrong), "the fault was not there to be mended"


def _run(
    ranks: Ranks,
    checkpoint: Checkpoint,
    topology: dict[str, Any],
    grouped: bool,
    off: list[str],
    modules: list[str],
) -> list[dict[str, float]]:
    from bridge_plugins.topology import Topology

    return ranks(
        MERGED,
        world=Topology(**topology).world,
        checkpoint=str(checkpoint("qwen3_moe")),
        topology=topology,
        grouped=grouped,
        off=off,
        modules=modules,
    )
