"""The stage megatron_local against the export's own records, on real ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks
from tests.trainer_layout.cases import topology_of

CI = pytest.mark.ci
STAGES = "tests.trainer_layout.cases:stages"


def stages(ranks: Ranks, model: Any, topology: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    world = topology_of(topology).world
    return ranks(STAGES, world=world, checkpoint=str(model), topology=topology, **options)


@pytest.mark.parametrize(
    ("family", "topology"),
    [
        pytest.param("qwen3_moe", {}, id="TP1", marks=CI),
        pytest.param("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2}, id="TP2 PP2 EP2"),
        pytest.param("qwen3_moe", {"pp": 2, "vpp": 2}, id="PP2 VPP2", marks=CI),
        pytest.param("qwen3_moe", {"ep": 4}, id="EP4", marks=CI),
        pytest.param("qwen3_moe", {"tp": 2, "etp": 2}, id="ETP2", marks=CI),
        pytest.param("qwen3", {"tp": 2, "world": 4}, id="dense, two replicas", marks=CI),
        pytest.param("qwen3_tied", {"tp": 2, "pp": 2}, id="tied", marks=CI),
        pytest.param("deepseek_v3", {"pp": 2, "ep": 2}, id="MLA, a bias in fp32", marks=CI),
    ],
)
def test_what_ranks_hold_is_bit_for_bit_what_the_bridge_yields(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, family: str, topology: dict[str, Any]
) -> None:
    reports = stages(ranks, checkpoint(family), topology, folder=str(tmp_path))
    for report in reports:
        assert report["tensors"] > 30
        assert report["same"]
        assert report["layers"]
        assert not report["local"]
        assert not report["export"]
    assert len(reports[0]["names"]) == reports[0]["tensors"]
    assert not reports[0]["unlike"]
    assert not any(report["names"] for report in reports[1:])  # records on the first rank alone


@pytest.mark.parametrize(
    ("fault", "topology", "said"),
    [
        pytest.param(
            "equal slabs", {"tp": 2}, "linear_qkv.weight",
            marks=pytest.mark.fault(20, place="merge", rule="LAYOUT", named="linear_qkv.weight"),
        ),
        ("gate and up", {"pp": 2, "ep": 2}, "decoder.layers.1.mlp.experts.linear_fc1"),
        pytest.param("experts", {"ep": 2}, "of another HF expert number", marks=CI),
        pytest.param("layers", {"pp": 2}, "of another HF layer number", marks=CI),
    ],
)  # fmt: skip
def test_an_import_that_is_wrong_in_the_same_way_as_the_export(
    ranks: Ranks,
    checkpoint: Checkpoint,
    record_property: Any,
    fault: str,
    topology: dict[str, Any],
    said: str,
) -> None:
    for report in stages(ranks, checkpoint("qwen3_moe"), topology, fault=fault):
        assert report["same"]
        assert not report["export"]  # the round trip gives the checkpoint back: HASH has nothing to say
        assert 0 < len(report["local"]) < 5
        assert {rule for rule, *_ in report["local"]} == {"LAYOUT"}
        assert all(said in text for _, _, text, _ in report["local"]), report["local"]
        record_property("said", report["local"][0][2])


def test_an_export_that_is_wrong_once_there_is_no_checkpoint_to_compare_with(
    ranks: Ranks, checkpoint: Checkpoint
) -> None:
    first, *_ = stages(ranks, checkpoint("qwen3_moe"), {"ep": 2}, late="gate and up, export alone")
    assert not first["export"]
    assert not first["local"]
    assert not first["same"]
    assert first["unlike"] == sorted(
        f"model.layers.1.mlp.experts.{expert}.{part}_proj.weight"
        for expert in range(8)
        for part in ("gate", "up")
    )


def test_a_replica_that_drifted_apart_is_named(ranks: Ranks, checkpoint: Checkpoint) -> None:
    for report in stages(ranks, checkpoint("qwen3"), {"tp": 2, "world": 4}, drift=3):
        ((rule, severity, text, named),) = report["local"]
        assert (rule, severity, named) == ("UNIQ", "error", [3])
        assert "model.layers.0.input_layernorm.weight" in text
        assert not [
            finding for finding in report["export"] if "input_layernorm" in finding
        ]  # it takes one copy


def test_a_rank_that_can_not_tell_leaves_no_other_waiting(ranks: Ranks, checkpoint: Checkpoint) -> None:
    said = ranks("tests.trainer_layout.cases:unlike_its_layout", world=2, checkpoint=str(checkpoint("qwen3")))
    assert said[0] == said[1]
    assert said[0].startswith("rank 1: ")
    assert "final_layernorm.weight was there when the layout was found out" in said[0]
