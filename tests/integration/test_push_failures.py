"""A push that fails: every rank hears of it, the engine's version does not move, and the next push works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bridge_plugins.audit import WeightAudit
from bridge_plugins.engines.sglang.answer import Answer
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.errors import EngineError, PushError
from bridge_plugins.launch.processes import Run
from tests.integration.conftest import Serve
from tests.stacks.ranks import Ranks


def test_an_update_that_is_open_already_is_refused_and_the_next_one_works(
    serve: Serve, models: dict[str, Path]
) -> None:
    engine = serve("moe").engine
    weights = load_file(models["moe"] / "model.safetensors")
    sync = WeightSync(WeightAudit("moe"), [engine])
    engine.set_weight_version("before")
    engine.begin_weight_update()
    try:
        with pytest.raises(PushError, match="could not begin the update"):
            sync.push(weights.items(), "after")
    finally:
        engine.end_weight_update()
    assert engine.weight_version() == "before"
    assert sync.push(weights.items(), "after").verdict.word == "consistent"
    assert engine.weight_version() == "after"


def test_a_stream_that_breaks_closes_the_update_and_moves_no_version(
    serve: Serve, models: dict[str, Path]
) -> None:
    engine = serve("moe").engine
    weights = load_file(models["moe"] / "model.safetensors")
    engine.set_weight_version("before")

    def broken() -> Any:
        yield from list(weights.items())[:20]
        raise RuntimeError("a rank is gone")

    sync = WeightSync(WeightAudit("moe"), [engine], bucket_bytes=100_000)
    with pytest.raises(RuntimeError, match="a rank is gone"):
        sync.push(broken(), "after")
    assert engine.weight_version() == "before"
    assert sync.push(weights.items(), "again").verdict.word == "consistent"


def test_a_server_that_is_not_there_is_named() -> None:
    nobody = Engine("http://127.0.0.1:9")
    with pytest.raises(PushError, match=r"http://127\.0\.0\.1:9 could not begin .* the server is gone"):
        push([("a", torch.ones(2))], [nobody])
    with pytest.raises(EngineError, match="the server is gone"):
        nobody.info()


def test_a_tensor_with_another_value_in_the_engine_is_found(serve: Serve, models: dict[str, Path]) -> None:
    engine = serve("moe").engine
    weights = load_file(models["moe"] / "model.safetensors")
    name = "model.layers.2.mlp.experts.5.down_proj.weight"
    changed = dict(weights)
    changed[name] = weights[name].clone()
    # One bit of one element.
    changed[name].view(torch.int16)[3, 7] ^= 1
    WeightSync(WeightAudit("moe"), [engine]).push(changed.items(), "changed")

    class Deaf(Engine):
        """Says yes to everything and loads nothing."""

        def update_weights_from_tensor(self, *_: Any, **__: Any) -> None:
            pass

    found = WeightSync(WeightAudit("moe"), [Deaf(engine.url)]).push(weights.items(), "true")
    assert found.comparisons[0].mismatched == (name,)
    assert found.verdict.word == "findings"
    assert "layer 2" in str(found.verdict.findings[0])
    assert engine.weight_version() == "changed"


def test_every_rank_hears_of_a_failed_push(ranks: Ranks) -> None:
    said = ranks("tests.integration.cases:push_to_nobody", world=2)
    assert len(set(said)) == 1
    assert "http://127.0.0.1:9 could not begin" in said[0]


def test_an_error_of_any_kind_leaves_no_rank_waiting_in_the_stream(ranks: Ranks) -> None:
    said = ranks("tests.integration.cases:push_to_nobody", world=2, broken=True)
    assert said == ["http://127.0.0.1:9 could not begin the update: ValueError: no such thing"] * 2


@pytest.mark.ci
def test_a_server_that_dies_during_the_push_is_named(models: dict[str, Path]) -> None:
    from bridge_plugins.launch.engine import start_server
    from bridge_plugins.topology import Topology

    weights = load_file(models["dense"] / "model.safetensors")
    with Run(grace=0.0) as run:
        server = start_server(run, models["dense"], Topology(), cpu=True)
        server.wait(300)
        items = list(weights.items())

        def stream() -> Any:
            yield from items[:10]
            run.end()
            yield from items[10:]

        sync = WeightSync(WeightAudit("dense"), [server.engine], bucket_bytes=200_000)
        with pytest.raises(PushError, match=rf"{server.engine.url} did not load the bucket that begins with"):
            sync.push(stream(), "2")


@pytest.mark.ci
def test_a_server_without_the_plugin_says_how_to_get_it(
    models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bridge_plugins.launch.engine import start_server
    from bridge_plugins.topology import Topology

    # SGLang's own switch: only plugins of this name are loaded.
    monkeypatch.setenv("SGLANG_PLUGINS", "none")
    with Run() as run:
        server = start_server(run, models["dense"], Topology(), cpu=True)
        server.wait(300)
        with pytest.raises(EngineError, match="install megatron-bridge-plugins where that server runs"):
            server.engine.ask("readback", Answer)
