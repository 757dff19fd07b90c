"""A folder that is there whole or not at all, and what a checkpoint's folder is called."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_plugins.checkpoints import paths
from bridge_plugins.checkpoints.part import whole
from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Topology


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_folder_appears_when_all_of_it_is_written(tmp_path: Path) -> None:
    with whole(tmp_path / "deep" / "made") as part:
        (part / "inside").mkdir()
        (part / "inside" / "file").write_text("all of it")
        assert not (tmp_path / "deep" / "made").exists()
        assert part.parent == tmp_path / "deep", "a rename is atomic on one file system only"
        assert part.name.startswith(".made.part-")
    assert names(tmp_path / "deep") == ["made"]
    assert (tmp_path / "deep" / "made" / "inside" / "file").read_text() == "all of it"


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_nothing_is_left_of_what_failed(tmp_path: Path, error: type[BaseException]) -> None:
    def fail() -> None:
        with whole(tmp_path / "made") as part:
            (part / "half").write_text("half of")
            raise error

    with pytest.raises(error):
        fail()
    assert names(tmp_path) == []


def test_what_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine").write_text("mine")
    with pytest.raises(UsageError, match="made is there already"), whole(tmp_path / "made"):
        raise AssertionError("never reached")
    assert (tmp_path / "made" / "mine").read_text() == "mine"


def test_what_somebody_made_meanwhile_is_not_touched_either(tmp_path: Path) -> None:
    def raced() -> None:
        with whole(tmp_path / "made"):
            (tmp_path / "made").mkdir()

    with pytest.raises(UsageError, match="made is there already"):
        raced()
    assert names(tmp_path) == ["made"]


@pytest.mark.parametrize(
    ("topology", "name"),
    [
        (Topology(tp=2, pp=2, ep=2), "model_tp2_pp2_ep2_etp1"),
        (Topology(ep=4), "model_tp1_pp1_ep4_etp1"),
        (Topology(pp=2, vpp=2), "model_tp1_pp2_vpp2_ep1_etp1"),
    ],
)
def test_a_name_says_every_size(topology: Topology, name: str) -> None:
    assert paths.with_topology("model", topology) == name


@pytest.mark.parametrize("text", ["../../elsewhere", "12x", ""])
def test_a_tracker_from_outside_names_no_path(tmp_path: Path, text: str) -> None:
    (tmp_path / paths.TRACKER).write_text(text)
    with pytest.raises(UsageError, match="expected the number of an iteration"):
        paths.iteration(tmp_path)


def test_the_tracker_names_the_iteration(tmp_path: Path) -> None:
    (tmp_path / paths.TRACKER).write_text("20\n")
    with pytest.raises(UsageError, match=r"iter_0000020 is no whole torch_dist checkpoint"):
        paths.iteration(tmp_path)
    (tmp_path / "iter_0000020").mkdir()
    (tmp_path / "iter_0000020" / ".metadata").touch()
    assert (
        paths.iteration(tmp_path) == paths.iteration(tmp_path / "iter_0000020") == tmp_path / "iter_0000020"
    )
    assert paths.summary_of(tmp_path / "iter_0000020") == tmp_path / "iter_0000020.summary.json"
