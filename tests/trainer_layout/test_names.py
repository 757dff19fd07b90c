"""Names that ranks claim, without a layout: what the catalogue's numbering faults look like, and clean runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.faults.named import Named
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks
from tests.trainer_layout.cases import topology_of

CLAIMS = "tests.trainer_layout.cases:claims"


def claims(ranks: Ranks, folder: Any, topology: dict[str, Any], **options: Any) -> list[list[Any]]:
    """The findings, which are the same on every rank."""
    world = topology_of(topology).world
    told = ranks(CLAIMS, world=world, checkpoint=str(folder), topology=topology, **options)
    assert all(one == told[0] for one in told)
    findings: list[list[Any]] = told[0]
    return findings


@pytest.mark.parametrize(
    ("family", "topology", "provider"),
    [
        pytest.param("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2}, {}, id="TP2 PP2 EP2"),
        pytest.param("deepseek_v3", {"pp": 2, "ep": 2}, {}, id="MLA", marks=pytest.mark.ci),
        pytest.param("qwen3_moe", {"tp": 2, "etp": 2}, {}, id="ETP2", marks=pytest.mark.ci),
        pytest.param(
            "qwen3_moe",
            {"pp": 2, "vpp": 2, "ep": 2},
            {"moe_grouped_gemm": False},
            id="VPP",
            marks=pytest.mark.ci,
        ),
    ],
)
def test_a_clean_run_contradicts_nothing(
    ranks: Ranks, checkpoint: Checkpoint, family: str, topology: dict[str, Any], provider: dict[str, Any]
) -> None:
    assert claims(ranks, checkpoint(family), topology, provider=provider) == []


@pytest.mark.parametrize(
    ("fault", "topology", "said"),
    [
        pytest.param(
            "local layers", {"pp": 2}, [("UNIQ", [0, 1]), ("COV", "decoder layers 2-3 of 4")],
            marks=pytest.mark.fault(1, place="name mapping", rule="UNIQ", named="decoder.layers.0"),
        ),
        pytest.param(
            "local experts", {"ep": 2}, [("UNIQ", [0, 1])],
            marks=pytest.mark.fault(11, place="name mapping", rule="UNIQ", named="experts"),
        ),
        pytest.param(
            "one chunk", {"pp": 2, "vpp": 2}, [("UNIQ", [0]), ("UNIQ", [1]), ("COV", "decoder layers 2-3 of 4")],
            marks=pytest.mark.fault(4, place="name mapping", rule="COV", named="decoder layers 2-3 of 4"),
        ),
    ],
)  # fmt: skip
def test_two_that_go_by_one_name(
    ranks: Ranks, checkpoint: Checkpoint, named: Named, fault: str, topology: dict[str, Any], said: list[Any]
) -> None:
    findings = claims(ranks, checkpoint("qwen3_moe"), topology, fault=fault)
    assert [rule for rule, *_ in findings] == [rule for rule, _ in said]
    for (_, text, ranks_named), (_, expected) in zip(findings, said, strict=True):
        assert expected in (text if isinstance(expected, str) else [ranks_named]), findings
    named(text for _, text, _ in findings)


@pytest.mark.ci
def test_a_replica_that_drifted_apart(ranks: Ranks, checkpoint: Checkpoint) -> None:
    ((rule, text, _),) = claims(ranks, checkpoint("qwen3"), {"tp": 2, "world": 4}, drift=3)
    assert rule == "UNIQ"
    assert "decoder.layers.0.self_attention.linear_qkv.layer_norm_weight" in text
    assert "drifted apart" in text
