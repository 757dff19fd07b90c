"""Nothing of a run is left, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from bridge_plugins.launch.processes import Run

# Prints its own number, and that of a grandchild that left the session, renamed itself as SGLang's workers do, and
# ignores a polite end.
STUBBORN = """
import os, signal, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c",
     "import signal, setproctitle; setproctitle.setproctitle('renamed' * 500);"
     "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"],
    start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
print(os.getpid(), child.pid, flush=True)
signal.pause()
"""


def wait_for(condition: object, what: str, seconds: float = 20) -> None:
    limit = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < limit, f"waited {seconds} s for {what}"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether it still runs. A zombie doesn't: its new parent has only not looked at it yet."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def started(run: Run) -> list[int]:
    process = run.start("stubborn", [sys.executable, "-c", STUBBORN])
    wait_for(lambda: len(process.last_lines().split()) == 2, "both processes")
    return [int(word) for word in process.last_lines().split()]


def test_a_grandchild_that_ignores_sigterm_is_gone_too() -> None:
    with Run(grace=0.5) as run:
        pids = started(run)
        assert all(alive(pid) for pid in pids)
        run.end()
    assert not any(alive(pid) for pid in pids)
    assert not run.folder.exists()


def test_an_error_inside_ends_everything() -> None:
    run = Run(grace=0.5)

    def fail() -> None:
        with run:
            pids.extend(started(run))
            raise ValueError("oops")

    pids: list[int] = []
    with pytest.raises(ValueError, match="oops"):
        fail()
    assert not any(alive(pid) for pid in pids)


def test_shared_memory_of_the_run_is_removed_and_of_others_is_not() -> None:
    shm = Path("/dev/shm")  # noqa: S108
    with Run(grace=0.5) as run:
        ours, foreign = shm / f"torch_{started(run)[1]}_1_0", shm / f"torch_{os.getpid()}_1_0"
        ours.touch()
        foreign.touch()
        run.end()
        try:
            assert not ours.exists()
            assert foreign.exists()
        finally:
            foreign.unlink()


def test_a_second_ctrl_c_does_not_stop_the_tidying_up() -> None:
    run = Run(grace=1.0)
    pids: list[int] = []

    def interrupted_twice() -> None:
        with run:
            pids.extend(started(run))
            # The second one comes while `__exit__` waits for the child that ignores SIGTERM.
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_twice()
    assert not any(alive(pid) for pid in pids)


def test_a_launcher_that_is_killed_takes_its_children_along() -> None:
    script = """
import sys, time
from bridge_plugins.launch.processes import Run
run = Run()
process = run.start("child", [sys.executable, "-c", "import signal; signal.pause()"])
print(process.pid, run.folder, flush=True)
time.sleep(60)
"""
    launcher = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout
    pid, folder = launcher.stdout.readline().split()
    launcher.send_signal(signal.SIGKILL)
    launcher.wait()
    wait_for(lambda: not alive(int(pid)), "the child to end")
    for file in sorted(Path(folder).rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    Path(folder).rmdir()


def test_a_run_keeps_its_folder_when_asked() -> None:
    with Run(keep=True) as run:
        run.start("hello", [sys.executable, "-c", "print('hello')"]).wait(60)
    assert (run.folder / "hello.log").read_text() == "hello\n"
    for file in sorted(run.folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.folder.rmdir()


def test_a_deep_temporary_folder_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    with Run() as run:
        # torch's manager of shared memory makes such a socket there.
        assert len(str(run.folder / "tmp" / "torch-shm-dir-XXXXXX" / "manager.sock")) < 107
