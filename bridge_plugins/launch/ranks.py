"""Ranks under torchrun: settings go in by a file, rank 0's result comes out by one, and the first that fails has words."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import msgspec

from bridge_plugins.errors import BridgePluginsError
from bridge_plugins.launch.processes import Process, Run

Told = TypeVar("Told", bound=msgspec.Struct)
Result = TypeVar("Result", bound=msgspec.Struct)

_RESULT, _SAID = "result.json", "said.txt"


def start(run: Run, module: str, settings: msgspec.Struct, world: int, *, quiet: bool = True) -> Process:
    """Start ``python -m module SETTINGS`` under torchrun on `world` ranks of this machine; see `Run.start` for `quiet`."""
    file = run.folder / "settings.json"
    file.write_bytes(msgspec.json.encode(settings))
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world),
        "-m", module, str(file),
    ]  # fmt: skip
    # SGLang sets it so in its processes, and NCCL can't connect two that differ in it.
    cumem = os.environ.get("NCCL_CUMEM_ENABLE", "0")
    return run.start(
        "trainer", command, env={"OMP_NUM_THREADS": "1", "NCCL_CUMEM_ENABLE": cumem}, quiet=quiet
    )


def result(
    run: Run, process: Process, kind: type[Result], timeout: float, progress: Callable[[str], None]
) -> Result:
    """Wait for what rank 0 returned to `as_rank`, telling `progress` what it says meanwhile.

    Raises `BridgePluginsError` with the words of the first rank that failed, or if they take more than `timeout` seconds.
    """
    limit, heard = time.monotonic() + timeout, 0
    file = run.folder / _SAID
    while True:
        status = process.status()  # before what was said: nothing of it is missed
        said = file.read_text().splitlines() if file.exists() else []
        for line in said[heard:]:
            progress(line)
        heard = len(said)
        if status is not None:
            break
        if time.monotonic() > limit:
            raise BridgePluginsError(f"the ranks did not end in {timeout:.0f} s")
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.2)
    if status or not (run.folder / _RESULT).exists():
        raise BridgePluginsError(why(run, process, status))
    return msgspec.json.decode((run.folder / _RESULT).read_bytes(), type=kind)


def why(run: Run, process: Process, status: int) -> str:
    """The first failing rank's own words: the others only report that it is gone."""
    failures = sorted(run.folder.glob("failure-*.txt"), key=lambda file: file.stat().st_mtime_ns)
    if failures:
        return f"rank {failures[0].stem.partition('-')[2]}: {failures[0].read_text().strip()}"
    return f"the ranks ended with status {status}; their last lines:\n{process.last_lines()}"


def as_rank(work: Callable[[Told, Callable[[str], None]], msgspec.Struct], settings_type: type[Told]) -> None:
    """Be a rank that `start` made of this process: do `work`, and leave what it returns on rank 0, or a reason.

    `work` gets the settings, and a call that says what is done now: rank 0's is heard.
    """
    settings, folder = told(settings_type)
    first = os.environ["RANK"] == "0"
    with (folder / _SAID if first else Path(os.devnull)).open("a") as voice:

        def say(words: str) -> None:
            print(words, file=voice, flush=True)

        say("importing Megatron Bridge")
        # A rank may wait for another that writes to a slow disk.
        with joined(folder, timedelta(hours=2)):
            returned = work(settings, say)
            if first:
                (folder / _RESULT).write_bytes(msgspec.json.encode(returned))


def told(settings_type: type[Told]) -> tuple[Told, Path]:
    """The settings of the file on the command line, and the run's folder, where it lies."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=Path)
    file: Path = parser.parse_args().settings
    return msgspec.json.decode(file.read_bytes(), type=settings_type), file.parent


@contextlib.contextmanager
def joined(folder: Path, timeout: timedelta) -> Iterator[None]:
    """One of the ranks: output in a log of its own, plugins loaded, the default process group made, and a reason left in
    `folder` if the block fails. Collectives wait at most `timeout`.
    """
    rank = os.environ["RANK"]
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    warnings.filterwarnings("ignore")
    try:
        import torch
        import torch.distributed as dist

        import bridge_plugins
        from bridge_plugins.patches import cpu

        torch.set_num_threads(1)
        bridge_plugins.load()
        if not cpu.wanted():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("gloo" if cpu.wanted() else "cpu:gloo,cuda:nccl", timeout=timeout)
        yield
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        # What we raise says it in one line; of anything else its first line, the rest is in the log.
        kind = "" if isinstance(error, BridgePluginsError) else f"{type(error).__name__}: "
        (folder / f"failure-{rank}.txt").write_text(f"{kind}{next(iter(str(error).splitlines()), '')}\n")
        raise
