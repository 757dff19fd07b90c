"""``BRIDGE_AUDIT=1`` alone: every export of the bridge leaves a file for each rank, and no rank waits for another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import Summary, read_summary
from bridge_plugins.audit.reading import read_versions
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

FULL: dict[str, Any] = {"tp": 2, "pp": 2, "ep": 2}


@pytest.fixture(scope="module")
def run(ranks: Ranks, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    folder = tmp_path_factory.mktemp("audit")
    results = ranks(
        "tests.audit.cases:automatic_run", world=4, timeout=240, checkpoint=str(checkpoint("qwen3_moe")),
        topology=FULL, folder=str(folder), saved=str(tmp_path_factory.mktemp("saved")),
    )  # fmt: skip
    return folder, results


def test_the_very_items_of_the_bridge_are_handed_on(run: tuple[Path, Any]) -> None:
    whole, prebuilt, some, *later = run[1][0]["lengths"]
    assert run[1][0]["kinds"] == ["HFWeightTuple"]
    assert whole == prebuilt == later[0] == later[1] > some > 0


def test_every_rank_leaves_one_file_for_each_version_and_stage(run: tuple[Path, Any]) -> None:
    names = sorted(path.name for path in run[0].iterdir())
    versions = [f"v{n:06d}.hf" for n in range(1, 6)] + ["v000001.save"]
    # The sixth export is beyond BRIDGE_AUDIT_MAX_VERSIONS.
    assert names == sorted(f"{version}.rank{rank:05d}.json" for version in versions for rank in range(4))


@pytest.fixture(scope="module")
def versions(run: tuple[Path, Any]) -> dict[str, dict[str, Summary]]:
    return read_versions(run[0])


def test_what_was_exported_is_told_apart(versions: dict[str, dict[str, Summary]]) -> None:
    partial = {version: stages["hf"].header.partial for version, stages in versions.items()}
    assert partial["1"] == partial["2"] == partial["5"] == ""
    assert " conversion tasks" in partial["3"]
    assert partial["4"] == "its consumer closed it early"
    assert versions["1"]["save"].digest == versions["1"]["hf"].digest == versions["2"]["hf"].digest


def test_nothing_is_found_in_any_of_them(versions: dict[str, dict[str, Summary]]) -> None:
    found = [str(f) for stages in versions.values() for s in stages.values() for f in s.findings if f.counts]
    assert found == []


def test_the_header_says_what_it_is(versions: dict[str, dict[str, Summary]], checkpoint: Checkpoint) -> None:
    header = versions["1"]["hf"].header
    folder = checkpoint("qwen3_moe")
    assert header.model == folder.name
    assert header.expected == str(folder)
    assert header.topology == "TP=2 PP=2 EP=2 SP WORLD=4"
    assert (header.unversioned, header.world, header.merged) == (True, 4, 4)
    assert header.patches["names"] == "applied"


def test_one_rank_keeps_the_records_and_the_others_what_tells_them_apart(run: tuple[Path, Any]) -> None:
    first, *others = (read_summary(run[0] / f"v000001.hf.rank{rank:05d}.json") for rank in range(4))
    assert len(first.records) == run[1][0]["lengths"][0]
    for other in others:
        assert not other.records
        assert (other.digest, other.header.manifest) == (first.digest, first.header.manifest)
        assert other.layers == first.layers


def test_ranks_that_differ_are_named_with_the_layer(run: tuple[Path, Any], tmp_path: Path) -> None:
    import msgspec

    for rank in range(4):
        summary = read_summary(run[0] / f"v000001.hf.rank{rank:05d}.json")
        if rank == 3:
            layers = [
                msgspec.structs.replace(x, digest="0") if x.name.endswith(".2") else x for x in summary.layers
            ]
            summary = msgspec.structs.replace(summary, digest="1", layers=layers)
        if rank != 2:
            summary.write(tmp_path / f"v000001.hf.rank{rank:05d}.json")
    lines = [str(finding) for finding in read_summary(tmp_path).findings]
    assert lines[0].startswith("MANIFEST model.layers.2 (ranks 3): ranks exported other weights than rank 0")
    assert lines[1].startswith("MANIFEST model (ranks 2): 1 of 4 ranks left no file of version 1")


def test_off_costs_nothing(ranks: Ranks, checkpoint: Checkpoint) -> None:
    assert ranks("tests.audit.cases:off", checkpoint=str(checkpoint("qwen3"))) == [[]]
