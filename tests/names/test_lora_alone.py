"""An export of the adapters alone has every expert's own adapter, once, on every rank."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

ALONE = "tests.names.test_lora_alone:exported"
FC = ["linear_fc1", "linear_fc2"]
ALL = ["linear_qkv", "linear_proj", *FC]
SPLIT_ALL = [
    "linear_q",
    "linear_k",
    "linear_v",
    "linear_proj",
    "linear_fc1_up",
    "linear_fc1_gate",
    "linear_fc2",
]


def exported(
    checkpoint: str, topology: dict[str, Any], lora: str, modules: list[str], grouped: bool, off: list[str]
) -> dict[str, list[str]]:
    """What is wrong with this rank's stream of adapters: names that lack or are too many, other's values."""
    from collections import Counter

    from safetensors import safe_open

    import bridge_plugins
    from bridge_plugins.topology import Topology
    from tests.names import adapters

    for patch in off:
        bridge_plugins.load().revert(patch)
    sizes = Topology(**topology)
    trainer = adapters.filled(checkpoint, sizes, lora, modules, moe_grouped_gemm=grouped)
    shared = adapters.EXPERTS // sizes.ep if grouped else 1
    marks = {}
    with safe_open(f"{checkpoint}/model.safetensors", "pt") as file:
        for name in file.keys():  # noqa: SIM118 (no mapping)
            mark = adapters.wanted(trainer, name, modules, shared)
            for side in ("lora_A", "lora_B") if mark is not None else ():
                marks[f"{name.removesuffix('.weight')}.{side}.weight"] = mark
    stream = list(trainer.bridge.export_adapter_weights(trainer.model, show_progress=False))
    times = Counter(name for name, _ in stream)
    return {
        "missing": sorted(set(marks) - set(times)),
        "unexpected": sorted(set(times) - set(marks)),
        "repeated": [name for name, count in times.items() if count > 1],
        "of another": sorted(name for name, weight in stream if (weight != marks.get(name)).any()),
        "not on the CPU": [name for name, weight in stream if weight.device.type != "cpu"],
    }


@pytest.mark.parametrize(
    ("topology", "lora", "modules", "grouped"),
    [
        pytest.param({"pp": 2, "ep": 2}, "LoRA", ALL, False, id="SequentialMLP"),
        pytest.param({"pp": 2, "ep": 2}, "CanonicalLoRA", SPLIT_ALL, False, id="canonical"),
        pytest.param({"ep": 2}, "LoRA", FC, True, id="grouped"),
        pytest.param(
            {"tp": 2, "ep": 2, "etp": 2}, "LoRA", FC, False, id="with expert TP", marks=pytest.mark.ci
        ),
        pytest.param({"pp": 2, "vpp": 2, "ep": 2}, "LoRA", FC, False, id="with VPP", marks=pytest.mark.ci),
    ],
)
def test_every_adapter_comes_once_and_is_its_own(
    ranks: Ranks,
    checkpoint: Checkpoint,
    topology: dict[str, Any],
    lora: str,
    modules: list[str],
    grouped: bool,
) -> None:
    for found in _run(ranks, checkpoint, topology, lora, modules, grouped, []):
        assert {kind: names for kind, names in found.items() if names} == {}


@pytest.mark.parametrize(("off", "kind"), [("names", "of another"), ("lora_experts_alone", "missing")])
def test_without_a_patch_experts_are_wrong_or_missing(
    ranks: Ranks, checkpoint: Checkpoint, off: str, kind: str
) -> None:
    found = _run(ranks, checkpoint, {"ep": 2}, "LoRA", FC, False, [off])
    assert found[1][kind]


def _run(
    ranks: Ranks,
    checkpoint: Checkpoint,
    topology: dict[str, Any],
    lora: str,
    modules: list[str],
    grouped: bool,
    off: list[str],
) -> list[dict[str, list[str]]]:
    from bridge_plugins.topology import Topology

    return ranks(
        ALONE,
        world=Topology(**topology).world,
        checkpoint=str(checkpoint("qwen3_moe")),
        topology=topology,
        lora=lora,
        modules=modules,
        grouped=grouped,
        off=off,
    )
