"""Real SGLang servers on the CPU, one for each topology, with a plugin beside ours that breaks their memory on request."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.launch.engine import Server
from bridge_plugins.launch.processes import Run
from tests.ended_early import end_with_last_user
from tests.engine.architectures import ARGUMENTS
from tests.engine.model_rank import Sizes
from tests.stacks.ranks import Ranks

FAULTS = Path(__file__).with_name("faults")
KEY = "the server's own"


@dataclasses.dataclass
class Servers:
    """``servers.engine("Qwen3-MoE", Sizes(tp=2))``: the client of the server for that, started at its first use."""

    ranks: Ranks
    folder: Path
    run: Run
    started: dict[tuple[str, Sizes, str], Engine] = dataclasses.field(default_factory=dict)

    def checkpoint(self, architecture: str) -> Path:
        """A tiny random checkpoint."""
        folder = self.folder / architecture
        if not folder.exists():
            self.ranks(
                "tests.engine.servers:make_checkpoint",
                backend=None, architecture=architecture, folder=str(folder),
            )  # fmt: skip
        return folder

    def engine(self, architecture: str, sizes: Sizes, readback: str = "1") -> Engine:
        """The client, with the server's key."""
        at = (architecture, sizes, readback)
        if at not in self.started:
            server = self.start(architecture, sizes, BRIDGE_READBACK=readback)
            server.wait(280)
            self.started[at] = server.engine
        return self.started[at]

    def start(self, architecture: str, sizes: Sizes, **environment: str) -> Server:
        """A server of its own; not waited for."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [
            sys.executable, "-m", "bridge_plugins.engines.sglang.serve",
            "--model-path", str(self.checkpoint(architecture)), "--host", "127.0.0.1", "--port", str(port),
            "--tp-size", str(sizes.tp), "--ep-size", str(sizes.ep), "--pp-size", str(sizes.pp),
            "--skip-server-warmup", "--skip-tokenizer-init", "--admin-api-key", KEY,
            "--max-total-tokens", "4096", "--max-running-requests", "16", "--log-level", "info",
            *ARGUMENTS.get(architecture, ()),
        ]  # fmt: skip
        path = [str(FAULTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        env = {
            "PYTHONPATH": os.pathsep.join(path), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false", "BRIDGE_PLUGINS_CPU": "1", "BRIDGE_READBACK": "1",
            # Nothing is generated: a server with a draft has no kernels for it here.
            "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "0",
            "SGLANG_CPU_OMP_THREADS_BIND": "|".join(str(r % (os.cpu_count() or 1)) for r in range(sizes.world)),
        }  # fmt: skip
        process = self.run.start(f"engine-{port}", command, env=env | environment)
        return Server(process, Engine(f"http://127.0.0.1:{port}", api_key=KEY))


def make_checkpoint(architecture: str, folder: str) -> None:
    """Runs in a process that has transformers."""
    from tests.engine.architectures import make

    make(architecture, Path(folder))


def fault(engine: Engine, name: str, **arguments: Any) -> None:
    """Break the engine's memory (see faults/bridge_faults.py)."""
    engine._json("POST", "/weights_checker", {"action": f"fault.{name}:{json.dumps(arguments)}"})


@pytest.fixture(scope="session")
def servers(
    request: pytest.FixtureRequest, ranks: Ranks, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Servers]:
    """`Servers`; they end with the last test that asks for them."""
    with Run() as run:
        end_with_last_user(request, run)
        yield Servers(ranks, tmp_path_factory.mktemp("engines"), run)
