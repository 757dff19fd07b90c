"""Faults of real exports, each switched in at its one true place, and named by the audit alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import read_summary
from bridge_plugins.topology import Topology
from tests.faults.named import Named
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks


@pytest.mark.parametrize(
    ("fault", "topology"),
    [
        pytest.param(
            "local numbers", {"pp": 2},
            marks=pytest.mark.fault(
                1, place="name mapping", rule="COV", named="model.layers: layers 2 to 3 of 4 never came"
            ),
        ),
        pytest.param(
            "not gathered", {"tp": 2},
            marks=[
                pytest.mark.ci,
                pytest.mark.fault(
                    19, place="merge", rule="SHAPE", named="lm_head.weight: is [256, 64], the checkpoint has [512, 64]"
                ),
            ],
        ),
    ],
)  # fmt: skip
def test_automatic_mode_names_it(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, named: Named, fault: str, topology: dict[str, Any]
) -> None:
    world = Topology(**topology).world
    options: dict[str, Any] = {
        "checkpoint": str(checkpoint("qwen3")),
        "topology": topology,
        "folder": str(tmp_path),
    }
    ranks("tests.audit.cases:export_once", world=world, fault=fault, **options)
    named(str(finding) for finding in read_summary(tmp_path).findings if finding.severity == "error")


@pytest.mark.ci
@pytest.mark.fault(
    88, place="merge", rule="DELTA", named="although declared frozen; adapters merged into the base"
)
def test_adapters_that_are_merged_into_a_base_that_should_stand_still(
    ranks: Ranks, checkpoint: Checkpoint, named: Named
) -> None:
    # The engine would apply them a second time.
    results = ranks(
        "tests.audit.cases:clean_run", world=2, timeout=240, checkpoint=str(checkpoint("qwen3")),
        topology={"pp": 2}, kind="lora", declared_frozen=["*"],
    )  # fmt: skip
    assert all(
        line.startswith("DELTA layer ") and "although declared frozen" in line for line in results[0]["said"]
    )
    assert len({line.partition(":")[0] for line in results[0]["said"]}) == 4
    named(results[0]["said"])
