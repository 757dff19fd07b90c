"""The wire stage of each framework: what its transport is handed, on recordings of its own names; faults on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import Summary
from bridge_plugins.audit.reading import read_versions
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

#: framework → the patches that its updates go through
PATCHES = {
    "slime": {"audit_slime_tensor", "audit_sglang"},
    "slime_broadcast": {"audit_slime_distributed", "audit_slime_broadcast", "audit_slime_launch"},
    "miles": {"audit_miles_tensor", "audit_sglang"},
    "miles_broadcast": {"audit_miles_distributed", "audit_miles_broadcast"},
    "nemo_rl": {"audit_nemo_rl_ipc"},
    "nemo_rl_broadcast": {"audit_nemo_rl_broadcast"},
}


def update(
    ranks: Ranks, checkpoint: Checkpoint, folder: Path, framework: str, fault: str = ""
) -> dict[str, dict[str, Summary]]:
    (states,) = ranks(
        "tests.audit.wire_cases:sent_by", framework=framework, checkpoint=str(checkpoint("qwen3")),
        folder=str(folder), fault=fault,
    )  # fmt: skip
    assert {name for name in PATCHES[framework] if states[name] != "applied"} == set()
    return read_versions(folder)


def lines(summary: Summary) -> list[str]:
    return [str(finding) for finding in summary.findings if finding.counts]


@pytest.mark.parametrize("framework", PATCHES)
def test_what_is_sent_is_what_was_exported(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, framework: str
) -> None:
    versions = update(ranks, checkpoint, tmp_path, framework)
    assert list(versions) == ["1", "2"]
    for stages in versions.values():
        assert set(stages) == {"hf", "wire"}
        assert stages["wire"].digest == stages["hf"].digest
        assert stages["hf"].header.unversioned == framework.startswith("nemo")
        assert [*lines(stages["hf"]), *lines(stages["wire"])] == []


@pytest.mark.parametrize(
    ("framework", "fault", "said"),
    [
        ("slime", "overwritten", "WIRE layer 1: model.layers.1.mlp.down_proj.weight is sent with other bits"),
        ("nemo_rl", "overwritten", "WIRE layer 1: model.layers.1.mlp.down_proj.weight is sent with other bits"),
        ("miles", "dropped", "SET layer 1: model.layers.1.mlp.down_proj.weight of "),
        pytest.param(
            "slime_broadcast", "strided", "WIRE layer 1: model.layers.1.mlp.down_proj.weight is handed over as a view",
            marks=pytest.mark.fault(82, place="transport", rule="WIRE", named="is handed over as a view"),
        ),
    ],
)  # fmt: skip
def test_a_fault_on_the_way_is_named(
    ranks: Ranks,
    checkpoint: Checkpoint,
    tmp_path: Path,
    record_property: Any,
    framework: str,
    fault: str,
    said: str,
) -> None:
    stages = update(ranks, checkpoint, tmp_path, framework, fault)["2"]
    assert lines(stages["hf"]) == []
    right = [line for line in lines(stages["wire"]) if line.startswith(said)]
    assert right, lines(stages["wire"])
    record_property("said", right[0])


def test_a_transport_that_makes_views_contiguous_may_get_some(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    assert lines(update(ranks, checkpoint, tmp_path, "miles_broadcast", "strided")["2"]["wire"]) == []
