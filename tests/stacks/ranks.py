"""Runs a function on several ranks of real torch.distributed, forked from one that holds the stacks."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import multiprocessing
import os
import signal
import socket
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import msgspec
import pytest

PR_SET_PDEATHSIG = 1  #: from <sys/prctl.h>
TAIL = 30  #: lines of a failed rank's log that an error shows


class RankError(AssertionError):
    """A rank raised, died or ran out of time; the message has its traceback and the end of its log."""


class Ranks:
    """``ranks("tests.names.test_x:function", world=4, option=1)`` gives the results of all ranks, in order.

    The function and its arguments travel as text and JSON, so that a case can be read off its call.
    The results come back as JSON too. When one rank fails, the others are killed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cases = 0
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["tests.stacks.preload"])

    def __call__(
        self,
        function: str,
        world: int = 1,
        *,
        timeout: float = 120,
        backend: str | None = "gloo",
        **arguments: Any,
    ) -> list[Any]:
        """Run `function` with `arguments` on `world` ranks; with ``backend=None`` without a process group.

        Raises `RankError` naming the rank that failed first.
        """
        self.cases += 1
        case = self.folder / f"{self.cases:03d}-{function.rpartition(':')[2]}"
        case.mkdir()
        with socket.create_server(("127.0.0.1", 0)) as store:
            processes = [
                self._context.Process(
                    target=_rank,
                    args=(function, msgspec.json.encode(arguments), rank, world, backend, store, case),
                    name=f"rank {rank} of {case.name}",
                    daemon=True,
                )
                for rank in range(world)
            ]
            try:
                for process in processes:
                    process.start()
                _join(processes, case, timeout)
            finally:
                for process in processes:
                    if process.pid is not None:
                        process.kill()
                        process.join()
        return [msgspec.json.decode((case / f"rank{rank}.json").read_bytes()) for rank in range(world)]


def _join(processes: Sequence[BaseProcess], case: Path, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    running: dict[Any, int] = {process.sentinel: rank for rank, process in enumerate(processes)}
    while running:
        ended = wait(list(running), timeout=max(0.0, deadline - time.monotonic()))
        if not ended:
            late = sorted(running.values())
            raise RankError(f"{case.name}: ranks {late} still ran after {timeout:g} s\n{_report(case, late)}")
        failed = [running[sentinel] for sentinel in ended if processes[running[sentinel]].exitcode]
        if failed:
            # A rank that loses its peer fails too, and may be seen first: the earliest traceback counts.
            errors = sorted(case.glob("rank*.error"), key=lambda path: path.stat().st_mtime_ns)
            rank = int(errors[0].stem.removeprefix("rank")) if errors else failed[0]
            raise RankError(f"{case.name}: rank {rank} failed\n{_report(case, [rank])}")
        for sentinel in ended:
            del running[sentinel]


def _report(case: Path, ranks: list[int]) -> str:
    parts = []
    for rank in ranks:
        for kind in ("error", "log"):
            path = case / f"rank{rank}.{kind}"
            if path.exists() and path.stat().st_size:
                lines = path.read_text(errors="replace").splitlines()[-TAIL:]
                parts.append("\n".join([f"--- rank {rank}: {kind}", *lines]))
    return "\n".join(parts)


def _rank(
    function: str,
    arguments: bytes,
    rank: int,
    world: int,
    backend: str | None,
    store: socket.socket,
    case: Path,
) -> None:
    """What runs in the forked process."""
    # The fork server ends with pytest, however that ends; its ranks must end with it.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with (case / f"rank{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    try:
        module, _, name = function.partition(":")
        with _process_group(rank, world, backend, store):
            result = getattr(importlib.import_module(module), name)(**msgspec.json.decode(arguments))
        (case / f"rank{rank}.json").write_bytes(msgspec.json.encode(result))
    except BaseException:
        (case / f"rank{rank}.error").write_text(traceback.format_exc())
        sys.exit(1)


@contextlib.contextmanager
def _process_group(rank: int, world: int, backend: str | None, store: socket.socket) -> Iterator[None]:
    if backend is None:
        yield
        return
    import torch.distributed as dist
    from megatron.core import parallel_state

    host, port = store.getsockname()
    # The socket was bound before the ranks were forked: no port can be lost to another process in between.
    given: dict[str, Any] = {"master_listen_fd": store.detach()} if rank == 0 else {}
    keys = dist.TCPStore(host, port, world, is_master=rank == 0, **given)  # type: ignore[attr-defined]
    dist.init_process_group(backend, rank=rank, world_size=world, store=keys)
    yield
    dist.barrier()  # rank 0 holds the store: it must not leave while others still ask
    parallel_state.destroy_model_parallel()
    dist.destroy_process_group()


@pytest.fixture(scope="session")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> Ranks:
    """`Ranks`: forks as many ranks as a case needs from one server with Megatron Bridge imported."""
    return Ranks(tmp_path_factory.mktemp("ranks"))
