"""The processes of one run: started with a mark, and ended together, with whatever they started themselves."""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil

_MARK = "BRIDGE_PLUGINS_RUN"
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 (torch puts its files there; nothing of ours is written)
_PR_SET_PDEATHSIG = 1


class Run:
    """A folder for logs and scratch files, and every process that was started for this run.

    Use it as a context: at its end, however that comes, all marked processes are gone (workers that changed their
    session included), and so are their shared-memory files. The folder goes too, unless `keep` is set.
    """

    def __init__(self, keep: bool = False, grace: float = 3.0) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bridge-", dir=_short_folder()))
        self.keep, self.grace = keep, grace
        self._mark = uuid.uuid4().hex
        self._shared_before = _shared_files()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        with _uninterrupted():
            self.end()

    def start(
        self, name: str, command: Sequence[str], *, env: dict[str, str] | None = None, quiet: bool = True
    ) -> Process:
        """Start `command`, with output to ``<folder>/<name>.log``; without `quiet`, its stdout stays ours."""
        scratch = self.folder / "tmp"
        scratch.mkdir(exist_ok=True)
        log = self.folder / f"{name}.log"
        # SPT_NOENV: SGLang renames its workers with setproctitle, which would write over the mark.
        marked = {**os.environ, "SPT_NOENV": "1", **(env or {}), _MARK: self._mark, "TMPDIR": str(scratch)}
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 (the command is this project's own)
                command,
                env=marked,
                stdin=subprocess.DEVNULL,
                stdout=output if quiet else None,
                stderr=output,
                start_new_session=True,  # Ctrl-C comes to us alone; we end the others in order
                preexec_fn=_end_with_parent,
            )
        return Process(name, process, log)

    def end(self) -> None:
        """End every marked process: politely, after `grace` seconds by force. Safe to call again."""
        ours = self._marked()
        _stop([process for process in ours if "torch_shm_manager" not in _name(process)], self.grace)
        # The manager removes the files of clients that are gone, then leaves: give it the chance.
        _gone, left = psutil.wait_procs(self._marked(), timeout=3.0)
        _stop(left, grace=1.0)
        pids = {process.pid for process in ours}
        for file in _shared_files() - self._shared_before:
            if _owner(file) in pids:
                with contextlib.suppress(OSError):
                    file.unlink()
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def _marked(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid != os.getpid() and process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found


class Process:
    """A process of a run: whether it lives, and the last lines that it wrote."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name, self.log = name, log
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def wait(self, timeout: float) -> int:
        """The exit status. Raises ``subprocess.TimeoutExpired`` after `timeout` seconds."""
        return self._process.wait(timeout)

    def last_lines(self, count: int = 15) -> str:
        """The end of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-count:])


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into the KeyboardInterrupt that Ctrl-C is, so that contexts close."""

    def interrupt(number: int, _: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """A second Ctrl-C must not stop the tidying up, which ends by itself in seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(process: psutil.Process) -> str:
    try:
        return str(process.name())
    except psutil.Error:
        return ""


def _short_folder() -> str:
    """Where temporary files go, unless that is too deep: sockets live there, and their paths end at 107 bytes."""
    usual = tempfile.gettempdir()
    return usual if len(usual) <= 50 else "/tmp"  # noqa: S108 (a folder of its own is made in it)


def _end_with_parent() -> None:
    # If we are killed in a way that runs no `finally`, the kernel tells the child.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(processes: list[psutil.Process], grace: float) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _gone, left = psutil.wait_procs(processes, timeout=grace)
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=grace)


def _shared_files() -> set[Path]:
    return set(_SHARED_MEMORY.glob("torch_*")) if _SHARED_MEMORY.is_dir() else set()


def _owner(file: Path) -> int:
    """The process that made a file of torch's: ``torch_<pid>_<random>_<count>``."""
    digits = file.name.split("_")[1]
    return int(digits) if digits.isdigit() else -1
