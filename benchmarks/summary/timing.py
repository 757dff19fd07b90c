"""What a command takes: on the clock, of the CPU, and of memory. Linux alone says the last."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Taken(NamedTuple):
    """Seconds on the clock, and of CPU, user and system together."""

    seconds: float
    cpu: float


def command(*words: str) -> Callable[[], Taken]:
    """A command line to be timed."""

    def run() -> Taken:
        before = _of_children()
        started = time.perf_counter()
        _check(subprocess.run(words, stdout=subprocess.DEVNULL, check=False).returncode, words)  # noqa: S603
        return Taken(time.perf_counter() - started, _of_children() - before)

    return run


def memory(*words: str) -> int:
    """The most memory of its own that a command has, bytes, looked at every few milliseconds: mapped files are none."""
    most = 0
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as process:  # noqa: S603
        while process.poll() is None:
            status = Path(f"/proc/{process.pid}/status").read_text()
            if found := re.search(r"RssAnon:\s+(\d+) kB", status):
                most = max(most, 1024 * int(found[1]))
            time.sleep(0.003)
    _check(process.returncode, words)
    return most


def _check(status: int, words: Sequence[str]) -> None:
    if status not in (0, 1):  # 1 says that there are findings
        raise subprocess.CalledProcessError(status, words)


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system


def call(act: Callable[[], object]) -> Callable[[], Taken]:
    """A call in this process to be timed."""

    def run() -> Taken:
        started, cpu = time.perf_counter(), time.process_time()
        act()
        return Taken(time.perf_counter() - started, time.process_time() - cpu)

    return run


def best(
    acts: Mapping[str, Callable[[], Taken]], rounds: int, before: Callable[[], object]
) -> dict[str, Taken]:
    """The best of several rounds, each of all acts in turn: what disturbs one disturbs its neighbours."""
    found: dict[str, Taken] = {}
    for _ in range(rounds):
        for what, act in acts.items():
            before()
            taken = act()
            found[what] = min(found.get(what, taken), taken)
    return found
