"""Where expected names come from, in their stated order, and that they fit what the bridge yields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import read_summary
from bridge_plugins.topology import Topology
from tests.stacks.models import NEW_ROPE, Checkpoint
from tests.stacks.ranks import Ranks


def test_a_config_on_the_meta_device_names_what_the_files_name(ranks: Ranks, checkpoint: Checkpoint) -> None:
    folders = [str(checkpoint(family)) for family in ("qwen3_tied", "qwen3_moe", "deepseek_v3")]
    (apart,) = ranks("tests.audit.cases:expected_names", backend=None, folders=folders)
    assert apart == {folder: [] for folder in folders}


@pytest.mark.parametrize(
    ("family", "topology"),
    [
        pytest.param("qwen3_vl_moe", {"pp": 2, "ep": 2}, marks=[pytest.mark.ci, NEW_ROPE]),
        pytest.param("deepseek_v3", {"pp": 2, "ep": 2}, marks=pytest.mark.ci),
        ("qwen3_tied", {"tp": 2}),
    ],
    ids=str,
)
def test_a_family_is_exported_without_a_finding(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, family: str, topology: dict[str, Any]
) -> None:
    folder = checkpoint(family)
    world = Topology(**topology).world
    options: dict[str, Any] = {"checkpoint": str(folder), "topology": topology, "folder": str(tmp_path)}
    ranks("tests.audit.cases:export_once", world=world, timeout=200, **options)
    summary = read_summary(tmp_path)
    assert [str(finding) for finding in summary.findings if finding.counts] == []
    assert summary.header.expected == str(folder)
    assert len(summary.records) > 30


def test_without_a_checkpoint_the_config_says_what_is_expected(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    options: dict[str, Any] = {
        "checkpoint": str(checkpoint("qwen3")),
        "topology": {},
        "folder": str(tmp_path),
    }
    ranks("tests.audit.cases:export_once", from_config=True, **options)
    summary = read_summary(tmp_path)
    assert summary.header.expected == "the HF config, on the meta device"
    assert [str(finding) for finding in summary.findings if finding.counts] == []
