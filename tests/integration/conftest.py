"""The demo's own checkpoints, and one real SGLang server per engine topology, shared by all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge_plugins.launch.engine import Server, start_server
from bridge_plugins.launch.processes import Run
from bridge_plugins.topology import Topology
from tests.ended_early import end_with_last_user
from tests.stacks.ranks import Ranks

Serve = Callable[..., Server]


@pytest.fixture(scope="session")
def models(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """``moe`` and ``dense``: the demo's checkpoints with their tokenizers."""
    folder = tmp_path_factory.mktemp("models")
    made = {kind: folder / kind for kind in ("moe", "dense")}
    for kind, path in made.items():
        ranks("tests.integration.cases:make_checkpoint", backend=None, kind=kind, folder=str(path))
    return made


@pytest.fixture(scope="session")
def serve(request: pytest.FixtureRequest, models: dict[str, Path]) -> Iterator[Serve]:
    """``serve("moe", engine_tp=2)`` gives the server for that model and topology: started at its first use."""
    servers: dict[tuple[str, int, int], Server] = {}
    with Run() as run:
        end_with_last_user(request, run)

        def get(kind: str = "moe", *, engine_tp: int = 1, engine_ep: int = 1) -> Server:
            key = (kind, engine_tp, engine_ep)
            if key not in servers:
                topology = Topology(engine_tp=engine_tp, engine_ep=engine_ep)
                servers[key] = start_server(run, models[kind], topology, cpu=True)
                servers[key].wait(300)
            return servers[key]

        yield get
