"""No false alarm: real models, really trained at the learning rates of RL, have nothing to be found."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

FULL: dict[str, Any] = {"tp": 2, "pp": 2, "ep": 2}


def clean_run(
    ranks: Ranks, checkpoint: Any, topology: dict[str, Any], **options: Any
) -> list[dict[str, Any]]:
    return ranks(
        "tests.audit.cases:clean_run", world=Topology(**topology).world, timeout=240,
        checkpoint=str(checkpoint), topology=topology, **options,
    )  # fmt: skip


def check(results: list[dict[str, Any]]) -> None:
    first = results[0]
    assert first["said"] == []
    assert all(result == first for result in results[1:])
    loaded, again, trained, more = first["digests"]
    assert loaded == again
    assert len({loaded, trained, more}) == 3  # it was really trained


PADDED = {"vocab_size": 500}
CI = [
    ("qwen3", {}, {"tp": 2, "pp": 2}, ""),
    ("qwen3", PADDED, {"tp": 2}, ""),
    # The stand-in of Transformer Engine gathers a sequence that adapters don't expect to be cut.
    ("qwen3", {}, {"tp": 2, "pp": 2, "sp": False}, "lora"),
    ("qwen3_tied", PADDED, {"tp": 2, "pp": 2}, ""),
    ("qwen3_moe", {}, {"tp": 2, "pp": 2, "ep": 2}, "fp32_router"),
    ("qwen3_moe", {}, {"tp": 1, "pp": 2, "vpp": 2, "ep": 2}, ""),
    ("qwen3_moe", {}, {"tp": 2, "pp": 2, "ep": 2, "etp": 2, "stages": [3, 1]}, ""),
    ("qwen3_moe", {}, {"tp": 2, "pp": 2, "ep": 2}, "fp32_held"),
    ("qwen3", {}, {"pp": 2}, "quantised"),
    ("deepseek_v3", {}, {"pp": 2, "ep": 2}, ""),
]
GRID = [
    (family, sizes, {**topology, "sp": False} if kind == "lora" and "ep" not in topology else topology, kind)
    for family, sizes in (("qwen3", PADDED), ("qwen3_tied", {}), ("qwen3_moe", PADDED), ("deepseek_v3", {}))
    for topology in ({}, {"tp": 2}, {"pp": 2}, {"pp": 4}, {"tp": 2, "pp": 2}, {"tp": 2, "pp": 2, "ep": 2}, {"ep": 4})
    for kind in ("", "lora", "frozen", "fp32_router", "fp32_held", "quantised")
    if "ep" not in topology or "moe" in family or "deepseek" in family
    # A mixture of experts needs the sequence cut where TP is used: no adapters there.
    if not (kind == "lora" and "tp" in topology and ("moe" in family or "deepseek" in family))
    if not (kind.startswith("fp32_") and family in ("qwen3", "qwen3_tied"))
]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "sizes", "topology", "kind"),
    [
        ("qwen3_moe", {}, FULL, ""),
        ("qwen3_tied", {}, {"tp": 2, "pp": 2}, "frozen"),
        *(pytest.param(*case, marks=pytest.mark.ci) for case in CI),
        *(pytest.param(*case, marks=pytest.mark.full) for case in GRID),
    ],
    ids=str,
)
def test_a_clean_run_has_no_finding(
    ranks: Ranks,
    checkpoint: Checkpoint,
    family: str,
    sizes: dict[str, Any],
    topology: dict[str, Any],
    kind: str,
) -> None:
    results = clean_run(ranks, checkpoint(family, **sizes), topology, kind=kind)
    check(results)
    if kind == "fp32_held":
        assert results[0]["routers"] == ["float32"]  # they were exported as they are held


@pytest.mark.ci
def test_digests_are_the_same_in_any_topology(ranks: Ranks, checkpoint: Checkpoint) -> None:
    folder = checkpoint("qwen3_moe")
    digests = [
        clean_run(ranks, folder, topology, seed=len(topology))[0]["digests"][0] for topology in ({}, FULL)
    ]
    assert digests[0] == digests[1]
