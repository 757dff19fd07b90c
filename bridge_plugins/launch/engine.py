"""Start a real SGLang server for a run, and wait until it is ready."""

from __future__ import annotations

import os
import random
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import EngineError, UsageError
from bridge_plugins.launch.processes import Process, Run
from bridge_plugins.topology import Topology

# The server binds its port seconds after it was chosen. Meanwhile the system gives ports to the trainer's groups, and
# those begin at 32768 on Linux.
_NOT_GIVEN_AWAY = range(20_000, 32_000)


class Server:
    """A server that was started: its process, and the client to it."""

    def __init__(self, process: Process, engine: Engine) -> None:
        self.process, self.engine = process, engine

    def wait(self, timeout: float, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Return when the server is ready, calling `meanwhile` now and then (to raise if something else has failed).

        Raises `EngineError` with the server's last lines if it ends, or takes longer than `timeout` seconds.
        """
        limit = time.monotonic() + timeout
        while not self.engine.healthy():
            if self.process.status() is not None:
                raise EngineError(
                    f"the engine ended with status {self.process.status()} before it was ready; "
                    f"its last lines:\n{self.process.last_lines()}"
                )
            meanwhile()
            if time.monotonic() > limit:
                raise EngineError(f"the engine was not ready in {timeout:.0f} s; log: {self.process.log}")
            time.sleep(0.5)  # between two looks at a server that takes half a minute to start


def start_server(
    run: Run,
    model: Path,
    topology: Topology,
    *,
    port: int = 0,
    cpu: bool,
    python: str = sys.executable,
    options: Sequence[str] = (),
) -> Server:
    """Start ``bridge_plugins.engines.sglang.serve`` for `model`, on loopback, with readback on.

    Args:
        topology: ``engine_tp`` and ``engine_ep`` are used.
        port: 0 for a free one.
        cpu: whether it will run on a CPU.
        python: the interpreter of the engine's environment, if that is another one.
        options: more of SGLang's own.

    Raises:
        UsageError: if `port` is taken.
    """
    port = _usable_port(port)
    command = [
        python, "-m", "bridge_plugins.engines.sglang.serve",
        "--model-path", str(model), "--host", "127.0.0.1", "--port", str(port),
        "--tp-size", str(topology.engine_tp), "--ep-size", str(topology.engine_ep),
        "--skip-server-warmup", "--log-level", "info", *options,
    ]  # fmt: skip
    env = {"BRIDGE_READBACK": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
    if cpu:
        command += ["--max-total-tokens", "4096", "--max-running-requests", "16"]
        # SGLang wants to know which cores each of its ranks may use.
        cores = [str(rank % (os.cpu_count() or 1)) for rank in range(topology.engine_tp)]
        env |= {"SGLANG_CPU_OMP_THREADS_BIND": "|".join(cores), "CUDA_VISIBLE_DEVICES": ""}
    return Server(run.start("engine", command, env=env), Engine(f"http://127.0.0.1:{port}"))


def _usable_port(port: int) -> int:
    """`port`, or for 0 a free one that the system gives to nobody."""
    candidates = [port] if port else random.sample(_NOT_GIVEN_AWAY, 100)
    for candidate in candidates:
        if not (why := _taken(candidate)):
            return candidate
    raise UsageError(f"port {candidate} can't be used ({why}): choose another, or 0 for a free one")


def _taken(port: int) -> str:
    """Why `port` can't be used; empty if it can."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            return error.strerror or str(error)
    return ""
