"""The demo as its user runs it: the command, its output, its exit status, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parent.parent.parent
COMMAND = [sys.executable, "-m", "examples.bridge_mode"]
SHARED = Path("/dev/shm")  # noqa: S108


def processes_of_a_run(scratch: Path) -> set[int]:
    """The processes of runs whose folder lies in `scratch`: other runs on this machine are none of our business."""
    found = set()
    for process in psutil.process_iter():
        try:
            folder = process.environ().get("TMPDIR", "")
            if folder.startswith(f"{scratch}/") and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process.pid)
        except psutil.Error:
            continue
    return found


def shared_memory_of_the_dead() -> set[Path]:
    return {file for file in SHARED.glob("torch_*") if not psutil.pid_exists(int(file.name.split("_")[1]))}


@pytest.fixture
def nothing_left() -> Iterator[Path]:
    """A folder for temporary files; afterwards no process, no shared memory and no file of the run may be there."""
    shared = shared_memory_of_the_dead()
    with tempfile.TemporaryDirectory() as scratch:
        yield Path(scratch)
        assert processes_of_a_run(Path(scratch)) == set()
        assert shared_memory_of_the_dead() <= shared
        assert list(Path(scratch).glob("bridge-*")) == []


def demo(scratch: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=ROOT, env=environment(scratch), capture_output=True, text=True, timeout=280, check=False
    )  # fmt: skip


def environment(scratch: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(scratch)}


def shape(output: str) -> list[str]:
    """Output without what changes from run to run: numbers, digests, folders."""
    lines = [re.sub(r"/\S*/bridge-\w+", "FOLDER", line) for line in output.splitlines()]
    lines = [re.sub(r"\b[0-9a-f]{16}\b", "DIGEST", line) for line in lines]
    lines = [re.sub(r"-?\d[\d,]*(\.\d+)?(e[-+]\d+)?", "N", line) for line in lines]
    return [re.sub(r"[\s─]+", " ", line).strip() for line in lines]


def test_the_demo_is_consistent_and_prints_what_the_readme_shows(nothing_left: Path) -> None:
    done = demo(nothing_left)
    assert done.returncode == 0, done.stdout + done.stderr
    last = "VERDICT consistent  version=2  tensors=135 layers=4 mismatched=0 not_compared=0"
    assert done.stdout.splitlines()[-1] == last
    block = re.search(r"<!-- demo: begin -->\n```text\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert block
    shown, printed = shape(block[1])[1:], shape(done.stdout)
    assert sorted(shown) == sorted(printed)


@pytest.mark.ci
def test_a_broken_demo_names_the_fault_and_exits_with_1(nothing_left: Path) -> None:
    done = demo(nothing_left, "--fault", "swap-experts")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("VERDICT findings ")
    assert "layer 1: experts 0 and 1 are exchanged" in done.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--tp", "3", "--pp", "1", "--fault", "wrong-layer-offset"],
            [
                "a parallel size divides attention heads by TP: TP=3, heads=8; try TP=2",
                "needs a pipeline: PP=2",
            ],
        ),
        (["--model", "nowhere"], ["MODEL=nowhere is neither moe nor dense nor a folder"]),
        (["--stages", "3,x"], ["STAGES=3,x: give the layers of each chunk"]),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(
    nothing_left: Path, options: list[str], said: list[str]
) -> None:
    done = demo(nothing_left, *options)
    assert done.returncode == 2
    assert [line for line in said if line not in done.stdout] == []
    assert "engine     starting" not in done.stdout


def test_a_port_in_use_is_one_clear_line(nothing_left: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = demo(nothing_left, "--port", str(taken.getsockname()[1]))
    assert done.returncode == 2
    assert "can't be used (Address already in use): choose another, or 0 for a free one" in done.stdout


def until(process: subprocess.Popen[str], start: str) -> None:
    """Read the demo's output up to the line that begins with `start`."""
    assert process.stdout
    seen = []
    for line in process.stdout:
        seen.append(line)
        if line.startswith(start):
            return
    raise AssertionError(f"the demo ended without {start!r}:\n{''.join(seen)}")


def started(scratch: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        COMMAND,
        cwd=ROOT,
        env=environment(scratch),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Tests that run in the background hand on that they ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.ci
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(nothing_left: Path, number: int) -> None:
    with started(nothing_left) as process:
        until(process, "engine     ready")
        process.send_signal(number)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "everything is stopped" in rest


@pytest.mark.ci
def test_an_engine_that_dies_during_the_run_is_named(nothing_left: Path) -> None:
    with started(nothing_left) as process:
        until(process, "training   step 1")
        running = processes_of_a_run(nothing_left)
        assert running  # or the fixture above sees nothing
        for pid in running:
            with contextlib.suppress(psutil.NoSuchProcess):  # the server's workers end with it
                if "sglang" in " ".join(psutil.Process(pid).cmdline()):
                    psutil.Process(pid).kill()
        rest, _ = process.communicate(timeout=120)
    assert process.returncode == 2
    assert re.search(r"error: .*http://127\.0\.0\.1:\d+", rest), rest
    assert "VERDICT" not in rest
