"""``bridge-plugins convert`` as its user runs it: processes of its own, what they leave, and what an interrupt leaves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil
import pytest

from bridge_plugins.checkpoints import convert, paths
from bridge_plugins.errors import BridgePluginsError, UsageError
from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.unit.cli.command import audit

COMMAND = [sys.executable, "-m", "bridge_plugins.cli", "plugins", "convert"]


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    words = [*COMMAND, *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, timeout=280, check=False)


def processes() -> list[psutil.Process]:
    """The ranks, and what else a conversion of this process has started."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("bridge_plugins.checkpoints.work" in word for word in process.cmdline()):
                found.append(process)
    return found


class Made(NamedTuple):
    """A conversion that was made once for this file: of which folder, into which, and what was printed."""

    source: Path
    out: Path
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def made(checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Made:
    source, out = checkpoint("qwen3_moe"), tmp_path_factory.mktemp("converted")
    return Made(source, out, command(source, out / "model", "--tp", "2", "--ep", "2"))


@pytest.mark.ci
def test_a_checkpoint_is_named_by_its_topology_and_is_the_source(made: Made) -> None:
    assert made.done.returncode == 0, made.done.stdout + made.done.stderr
    assert [path.name for path in made.out.iterdir()] == ["model_tp2_pp1_ep2_etp1"]
    folder = made.out / "model_tp2_pp1_ep2_etp1"
    assert made.done.stdout.splitlines()[0] == f"wrote {folder}/: TP=2 PP=1 EP=2 SP WORLD=2"
    assert made.done.stdout.splitlines()[1].endswith(f": equal to {made.source}")
    assert folder.stat().st_mode & 0o777 == 0o777 & ~umask()
    difference = audit("diff", made.source, paths.summary_of(paths.iteration(folder)))
    assert difference.code == 0, difference.out


@pytest.mark.ci
def test_it_gives_the_source_back(made: Made, tmp_path: Path) -> None:
    folder = made.out / "model_tp2_pp1_ep2_etp1"
    back = command(folder, tmp_path / "hf", "--json")
    assert back.returncode == 0, back.stdout + back.stderr
    told = msgspec.json.decode(back.stdout)
    assert (told["folder"], told["topology"]) == (str(tmp_path / "hf"), "TP=1 PP=1 EP=1 WORLD=1")
    assert told["converted"]["compared_with"] == str(folder / "release.summary.json")
    assert audit("diff", made.source, tmp_path / "hf").code == 0


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.ci
def test_ctrl_c_while_it_saves_leaves_nothing(checkpoint: Checkpoint, tmp_path: Path) -> None:
    source = checkpoint("qwen3_moe")

    def interrupt(words: str) -> None:
        if words == "saving":
            assert [path.name.startswith(".model_tp1_pp1_ep1_etp1.part-") for path in tmp_path.iterdir()] == [
                True
            ]
            assert processes()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert.to_megatron(source, tmp_path / "model", Topology(), interrupt)
    assert list(tmp_path.iterdir()) == []
    assert processes() == []


@pytest.mark.ci
def test_a_rank_that_is_killed_while_it_reads_back_leaves_nothing(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    source = checkpoint("qwen3_moe")

    def kill(words: str) -> None:
        if words == "reading back":
            ranks = [process for process in processes() if "RANK" in process.environ()]
            assert ranks
            for rank in ranks:
                rank.kill()

    with pytest.raises(BridgePluginsError, match="the ranks ended with status 1"):
        convert.to_megatron(source, tmp_path / "model", Topology(), kill)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_done_is_said_before_anything_starts(checkpoint: Checkpoint, tmp_path: Path) -> None:
    source = checkpoint("qwen3_moe")
    (tmp_path / "model_tp1_pp1_ep1_etp1").mkdir()
    with pytest.raises(UsageError, match="model_tp1_pp1_ep1_etp1 is there already: nothing is written over"):
        convert.to_megatron(source, tmp_path / "model", Topology())
    with pytest.raises(UsageError) as broken:
        convert.to_megatron(source, tmp_path / "model", Topology(tp=3, ep=3))
    assert [rule for rule in ("TP=3, heads=8", "EP=3, experts=8") if rule not in str(broken.value)] == []
    with pytest.raises(UsageError, match=r"has no config\.json: name a Hugging Face folder"):
        convert.to_megatron(tmp_path, tmp_path / "other", Topology())
    with pytest.raises(UsageError, match=r"has no latest_checkpointed_iteration\.txt"):
        convert.to_hf(tmp_path, tmp_path / "hf", Topology())
    (tmp_path / ".metadata").touch()
    with pytest.raises(UsageError, match="doesn't say what model it is: give --hf"):
        convert.to_hf(tmp_path, tmp_path / "hf", Topology())
    (tmp_path / ".metadata").unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["model_tp1_pp1_ep1_etp1"]


def test_the_command_line_says_in_one_line_what_it_cannot_do(checkpoint: Checkpoint, tmp_path: Path) -> None:
    for arguments, said in (
        ((tmp_path / "nowhere", tmp_path / "out"), "nowhere is no folder: name a Hugging Face folder"),
        (
            (checkpoint("qwen3_moe"), tmp_path / "out", "--hf", tmp_path),
            "--hf is for the way to Hugging Face",
        ),
    ):
        done = command(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        [line] = done.stderr.splitlines()
        assert line.startswith("error: ")
        assert said in line
