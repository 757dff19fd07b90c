"""The preflight: consistent where names are, and each kind of finding where they aren't."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.stacks.models import NEW_ROPE, WHOLE_DEEPSEEK, Checkpoint
from tests.stacks.ranks import Ranks

PREFLIGHT = "tests.names.test_preflight:preflight"


def preflight(
    folder: str, topology: dict[str, Any], layout: str = "", fault: str = "", stock: bool = False
) -> dict[str, Any]:
    """The report of a preflight, with a fault put into the hooks first."""
    import msgspec

    from bridge_plugins.hookspecs import hookimpl
    from bridge_plugins.names.preflight import check
    from bridge_plugins.names.preflight.source import read
    from bridge_plugins.plugins import manager
    from bridge_plugins.topology import Topology

    class Faulty:
        @hookimpl
        def global_layer_number(self, name: Any) -> int | None:
            return name.layer if fault == "local layers" else None

        @hookimpl
        def global_expert_number(self, name: Any, context: Any) -> int | None:
            if fault == "off by one" and name.expert is not None:
                return context.ep.rank * 4 + name.expert + 1
            return name.expert if fault == "local experts" else None

    if fault.endswith("_numbers"):
        manager().unregister(name=fault)
    elif fault:
        manager().register(Faulty(), "faulty")
    sizes = Topology(**{**topology, "stages": tuple(topology.get("stages", ()))})
    report = check(read(Path(folder)), sizes, layout=layout, patched=not stock)
    return {"consistent": report.consistent, **json.loads(msgspec.json.encode(report))}


def run(ranks: Ranks, folder: Path, topology: dict[str, Any], **options: Any) -> dict[str, Any]:
    [report] = ranks(PREFLIGHT, backend=None, folder=str(folder), topology=topology, **options)
    return report


@pytest.mark.parametrize(
    ("family", "topology", "layout"),
    [
        ("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2, "etp": 2}, ""),
        ("qwen3_moe", {"pp": 2, "vpp": 2, "ep": 8}, ""),
        ("qwen3_moe", {"pp": 2, "ep": 2, "stages": [3, 1]}, ""),
        ("qwen3_moe", {"pp": 4, "ep": 2}, "E|tt|tt|L"),
        ("qwen3_tied", {"tp": 2, "pp": 4}, ""),
        ("deepseek_v3", {"pp": 4, "ep": 4, "world": 64}, ""),
        pytest.param("qwen3_vl_moe", {"pp": 2, "ep": 2}, "", marks=NEW_ROPE),
    ],
)
def test_right_names_are_a_bijection(
    ranks: Ranks, checkpoint: Checkpoint, family: str, topology: dict[str, Any], layout: str
) -> None:
    report = run(ranks, checkpoint(family), topology, layout=layout)
    assert report["findings"] == []
    assert report["notes"] == []
    assert report["expected_from"] == "the checkpoint's own files"
    layers = [layer for stage in report["stages"] for layer in stage["layers"]]
    assert sorted(layers) == list(range(4))
    if report["experts"]:
        assert sorted(e for rank in report["experts"] for e in rank["experts"]) == list(range(8))


def test_a_config_alone_asks_for_the_same_tensors_as_its_checkpoint(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    folder = checkpoint("qwen3_moe")
    shutil.copy(folder / "config.json", tmp_path)
    by_config = run(ranks, tmp_path, {"pp": 2, "ep": 2})
    by_files = run(ranks, folder, {"pp": 2, "ep": 2})
    assert by_config["expected_from"] == "the HF config, on the meta device"
    assert by_config["consistent"]
    assert by_config["hf_tensors"] == by_files["hf_tensors"]


@WHOLE_DEEPSEEK
def test_mtp_layers_are_named_too(ranks: Ranks, tmp_path: Path) -> None:
    config = {
        "model_type": "deepseek_v3",
        "architectures": ["DeepseekV3ForCausalLM"],
        "num_hidden_layers": 61,
        "n_routed_experts": 8,
        "num_nextn_predict_layers": 1,
        "n_group": 1,
        "topk_group": 1,
        "scoring_func": "sigmoid",
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    report = run(ranks, tmp_path, {"pp": 2, "ep": 2, "stages": [31, 30]})
    assert report["findings"] == []
    assert "mtp" in report["stages"][-1]["others"]


@pytest.mark.parametrize(
    ("fault", "kinds", "where"),
    [
        ("local layers", {"COLLISION", "GAP"}, "PP 0 EP 0 (rank 0), PP 1 EP 0 (rank 2)"),
        ("local experts", {"COLLISION", "GAP"}, "PP 0 EP 0 (rank 0), PP 0 EP 1 (rank 1)"),
        ("off by one", {"EXTRA", "GAP"}, "PP 1 EP 1 (rank 3)"),
        ("layer_numbers", {"NAMING", "GAP"}, "PP 1 EP 0 (rank 2)"),
        ("expert_numbers", {"NAMING", "GAP"}, "PP 0 EP 1 (rank 1)"),
    ],
)
def test_wrong_names_are_found_with_the_ranks_that_cause_them(
    ranks: Ranks, checkpoint: Checkpoint, fault: str, kinds: set[str], where: str
) -> None:
    report = run(ranks, checkpoint("qwen3_moe"), {"pp": 2, "ep": 2}, fault=fault)
    assert not report["consistent"]
    assert {finding["kind"] for finding in report["findings"]} == kinds
    assert where in {finding["where"] for finding in report["findings"]}


def test_a_checkpoint_of_other_shapes_is_found(ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("qwen3"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "intermediate_size": 128}))
    report = run(ranks, folder, {"tp": 2, "pp": 2})
    assert {finding["kind"] for finding in report["findings"]} == {"SHAPE"}
    assert "(128, 64)" in report["findings"][0]["detail"] + report["findings"][-1]["detail"]


def test_what_the_preflight_names_is_what_real_ranks_are_named(ranks: Ranks, checkpoint: Checkpoint) -> None:
    folder = checkpoint("qwen3_moe")
    topology = {"tp": 2, "pp": 2, "ep": 2}
    [simulated] = ranks(
        "tests.names.test_preflight:simulated_names", backend=None, folder=str(folder), topology=topology
    )
    real = ranks("tests.names.test_preflight:real_names", world=4, folder=str(folder), topology=topology)
    assert {name for names in real for name in names} == set(simulated)


def simulated_names(folder: str, topology: dict[str, Any]) -> list[str]:
    """All names of the simulated cluster, asked for rank by rank, each built in earnest."""
    from bridge_plugins.names.preflight.holdings import held
    from bridge_plugins.names.preflight.simulation import rank_of, simulated_rank
    from bridge_plugins.names.preflight.source import read
    from bridge_plugins.topology import Topology

    sizes, names = Topology(**topology), set()
    for stage in range(sizes.pp):
        for ep in range(sizes.ep):
            with simulated_rank(read(Path(folder)), sizes, rank_of(sizes, stage, ep)) as rank:
                names |= {one.whole for one in held(rank, stage, ep)}
    return sorted(names)


def real_names(folder: str, topology: dict[str, Any]) -> list[str]:
    """This real rank's names."""
    from megatron.bridge.models.conversion import model_bridge

    from bridge_plugins.topology import Topology
    from tests.stacks.trainer import build

    trainer = build(folder, Topology(**topology), load=False)
    return [
        model_bridge._megatron_local_name_to_global(
            trainer.model, trainer.model[0].config, trainer.bridge._model_bridge._unwrap_name(name), 0
        )
        for name, _ in trainer.model[0].named_parameters()
    ]


def test_stock_names_are_asked_for_without_the_patch(ranks: Ranks, checkpoint: Checkpoint) -> None:
    stock = run(ranks, checkpoint("qwen3_moe"), {"pp": 2, "ep": 2}, stock=True)
    assert stock["patched"] is False
    assert stock["bridge"].endswith("names reverted")
    # Grouped experts in bare layers are named right by every version: there the patch changes nothing.
    assert stock["findings"] == []
    # A plugin's wrong answers reach patched names only.
    assert run(ranks, checkpoint("qwen3_moe"), {"pp": 2, "ep": 2}, stock=True, fault="local experts")[
        "consistent"
    ]
