"""The grid: every cut of a small mixture that fits into 8 processes, and the unusual ones, on real ranks.

Each case checks names, import by coded weights, and export bit for bit against a single-rank checkpoint
(`tests.names.case`).
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.names.test_topologies import ONE_HOOK, one_hook_is_enough_for_its_own
from tests.stacks.models import NEW_ROPE, Checkpoint
from tests.stacks.ranks import Ranks

CHECK = "tests.names.case:check"
NOTHING = {"names": 0, "import": 0, "export": 0}
LAYERS = 8
PROCESSES = 8


def grid() -> list[Topology]:
    """PP{1,2,4} × EP{1,2,4} × TP{1,2} × ETP{1,2} × VPP{1,2}, as far as 8 processes go."""
    sizes = itertools.product((1, 2, 4), (1, 2, 4), (1, 2), (1, 2), (1, 2))
    topologies = [
        Topology(pp=pp, ep=ep, tp=tp, etp=etp, vpp=vpp)
        for pp, ep, tp, etp, vpp in sizes
        if not (vpp > 1 and pp == 1)
    ]
    return [topology for topology in topologies if topology.world <= PROCESSES]


def run(ranks: Ranks, folder: str, topology: dict[str, Any], **options: Any) -> None:
    world = Topology(**{**topology, "stages": tuple(topology.get("stages", ()))}).world
    for rank, report in enumerate(
        ranks(CHECK, world=world, timeout=240, checkpoint=folder, topology=topology, **options)
    ):
        assert report["parameters"] > 0
        assert report["counts"] == NOTHING, f"rank {rank}: {report}"


def fields(topology: Topology) -> dict[str, Any]:
    return {name: getattr(topology, name) for name in ("pp", "ep", "tp", "etp", "vpp")}


@pytest.mark.full
@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "single"])
@pytest.mark.parametrize("topology", grid(), ids=str)
def test_every_cut(ranks: Ranks, checkpoint: Checkpoint, topology: Topology, grouped: bool) -> None:
    folder = checkpoint("qwen3_moe", num_hidden_layers=LAYERS)
    run(ranks, str(folder), fields(topology), layers=LAYERS, provider={"moe_grouped_gemm": grouped})


@pytest.mark.full
@pytest.mark.parametrize("topology", grid(), ids=str)
def test_every_cut_with_one_hook_off(ranks: Ranks, checkpoint: Checkpoint, topology: Topology) -> None:
    folder = str(checkpoint("qwen3_moe", num_hidden_layers=LAYERS))
    for report in ranks(
        ONE_HOOK, world=topology.world, checkpoint=folder, topology=fields(topology), layers=LAYERS
    ):
        one_hook_is_enough_for_its_own(report, topology)


@pytest.mark.ci
@pytest.mark.parametrize(
    ("family", "topology", "provider"),
    [
        pytest.param(
            "qwen3_moe", {"pp": 4, "stages": [0, 2, 2, 0]}, {}, id="stages of embedding and loss only"
        ),
        pytest.param(
            "qwen3_moe", {"pp": 2, "vpp": 2, "stages": [1, 0, 2, 1]}, {}, id="a virtual stage of none"
        ),
        pytest.param("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2, "etp": 2}, {}, id="8 ranks"),
        pytest.param(
            "qwen3_moe", {"pp": 2, "vpp": 2, "ep": 2}, {"moe_grouped_gemm": False}, id="single experts, VPP"
        ),
        pytest.param("deepseek_v3", {"pp": 2, "ep": 4}, {}, id="MLA on 8 ranks"),
        pytest.param(
            "qwen3_vl_moe", {"pp": 2, "ep": 2}, {}, id="a vision tower, experts packed", marks=NEW_ROPE
        ),
        pytest.param("qwen3_tied", {"tp": 2, "pp": 2}, {}, id="tied embeddings"),
    ],
)
def test_unusual_cuts(
    ranks: Ranks, checkpoint: Checkpoint, family: str, topology: dict[str, Any], provider: dict[str, Any]
) -> None:
    run(ranks, str(checkpoint(family)), topology, provider=provider)


@pytest.mark.ci
def test_uneven_first_and_last_stages(ranks: Ranks, checkpoint: Checkpoint) -> None:
    """Cut by Megatron's own fields, not by a layout: the truth is told the same in `stages`."""
    run(
        ranks,
        str(checkpoint("qwen3_moe", num_hidden_layers=LAYERS)),
        {"pp": 4, "ep": 2, "stages": [1, 3, 3, 1]},
        layers=LAYERS,
        provider={
            "pipeline_model_parallel_layout": None,
            "num_layers_in_first_pipeline_stage": 1,
            "num_layers_in_last_pipeline_stage": 1,
        },
    )
