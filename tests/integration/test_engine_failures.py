"""An engine that fails on the way: it is named, it keeps its old label, and the others stop or go on, as asked."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import psutil
import pytest

from bridge_plugins.audit import WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.transports.from_distributed import FromDistributed
from bridge_plugins.engines.sync import Synced, WeightSync
from bridge_plugins.engines.verify import verify
from bridge_plugins.errors import BridgePluginsError, EngineError, PushError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Run
from bridge_plugins.topology import Topology
from tests.integration.conftest import Serve
from tests.integration.proxy import Proxy, frozen
from tests.integration.weights import version

#: The request that is spoilt, and the line that says what did not happen.
STEPS = {
    "/begin_weight_update": "could not begin the update",
    "/update_weights_from_tensor": "did not load the bucket that begins with",
    "/end_weight_update": "could not end the update",
    "/weights_checker": "could not be read back",
}


def push(engines: list[Engine], folder: Path, label: str, number: int = 0, **options: Any) -> Synced:
    audit = WeightAudit("moe")
    return WeightSync(audit, engines, bucket_bytes=300_000, **options).push(
        version(folder, number).items(), label
    )


def verify_is_consistent(engine: Engine, folder: Path, number: int = 0) -> bool:
    audit = WeightAudit("moe")
    for _ in audit.watch(version(folder, number).items()):
        pass
    summary, _ = audit.finish("now")
    return verify(summary, [engine]).verdict(summary).word == "consistent"


@pytest.fixture
def engine(serve: Serve, models: dict[str, Path]) -> Any:
    """A real engine that serves the checkpoint under the label "before", and does so again afterwards."""
    found = serve("moe").engine
    found.set_weight_version("before")
    yield found
    # What a push that failed had open is closed by now, or this one could not begin.
    assert push([found], models["moe"], "after").verdict.word == "consistent"


@pytest.mark.parametrize("keep", [0, 40], ids=["nothing comes", "the reply is cut off"])
@pytest.mark.parametrize("path", STEPS)
def test_a_reply_that_does_not_come_whole_is_no_success(
    engine: Engine, models: dict[str, Path], path: str, keep: int
) -> None:
    with Proxy(engine.url, path, keep=keep) as proxy:
        with pytest.raises(BridgePluginsError, match=f"{proxy.url} {STEPS[path]}.*the server is gone"):
            push([Engine(proxy.url)], models["moe"], "cut")
        assert engine.weight_version() == "before"


def test_an_engine_that_does_not_answer_is_waited_for_as_long_as_was_said(
    engine: Engine, models: dict[str, Path]
) -> None:
    with (
        Proxy(engine.url, "/weights_checker") as proxy,
        pytest.raises(EngineError, match=f"{proxy.url} could not be read back.*no answer in 4 s"),
    ):
        push([Engine(proxy.url, timeout=4.0)], models["moe"], "silent")
    assert engine.weight_version() == "before"


def test_the_others_roll_on_without_an_engine_that_fails(engine: Engine, models: dict[str, Path]) -> None:
    gone = Engine("http://127.0.0.1:9")
    done = push([gone, engine], models["moe"], "rolled on", on_failure="roll on")
    assert list(done.failed) == [gone.url]
    assert [comparison.engine for comparison in done.comparisons] == [engine.url]
    assert done.verdict.word == "findings"
    assert gone.url in str(done.verdict.findings[0])
    assert engine.weight_version() == "rolled on"


def test_the_others_stop_where_that_is_asked(engine: Engine, models: dict[str, Path]) -> None:
    gone = Engine("http://127.0.0.1:9")
    with pytest.raises(PushError, match=r"http://127\.0\.0\.1:9 could not begin the update"):
        push([gone, engine], models["moe"], "stopped")
    assert engine.weight_version() == "before"
    assert verify_is_consistent(engine, models["moe"])


def test_where_the_second_label_fails_the_first_is_taken_back(
    engine: Engine, models: dict[str, Path]
) -> None:
    with Proxy(engine.url, "/update_weight_version", keep=0) as proxy:

        class SecondWay(Engine):
            """Another way to the same server: it has its weights already."""

            def begin_weight_update(self) -> bool:
                return False

            def update_weights_from_tensor(self, *_: Any, **__: Any) -> None:
                pass

        with pytest.raises(EngineError, match="could not be labelled"):
            push([engine, SecondWay(proxy.url)], models["moe"], "two")
    assert engine.weight_version() == "before"


@pytest.mark.full
def test_a_server_that_dies_while_it_is_read_back_is_named_and_the_other_gets_its_label(
    engine: Engine, models: dict[str, Path]
) -> None:
    with Run(grace=0.0) as run:
        other = start_server(run, models["moe"], Topology(), cpu=True)
        other.wait(300)
        with Proxy(other.engine.url, "/weights_checker", asked=run.end, keep=0) as proxy:
            done = push([Engine(proxy.url), engine], models["moe"], "one", number=1, on_failure="roll on")
    assert list(done.failed) == [proxy.url]
    assert "could not be read back" in done.failed[proxy.url]
    assert engine.weight_version() == "one"
    assert verify_is_consistent(engine, models["moe"], 1)


@pytest.mark.full
def test_a_distributed_push_to_a_server_that_dies_ends(models: dict[str, Path]) -> None:
    transport = FromDistributed(timeout=20)
    with Run(grace=0.0) as run:
        server = start_server(run, models["dense"], Topology(), cpu=True)
        server.wait(300)
        weights = list(version(models["dense"], 0).items())

        def stream() -> Any:
            yield from weights[:10]
            run.end()
            yield from weights[10:]

        sync = WeightSync(WeightAudit("dense"), [server.engine], bucket_bytes=200_000, transport=transport)
        with pytest.raises(PushError, match="did not load the bucket that begins with"):
            sync.push(stream(), "2")


@pytest.mark.full
def test_a_server_that_dies_while_its_layout_is_found_out_says_so(models: dict[str, Path]) -> None:
    with Run(grace=0.0) as run:
        server = start_server(run, models["dense"], Topology(), cpu=True)

        def kill_the_prober() -> None:
            if "Load weight end" in server.process.log.read_text(errors="replace"):
                for child in psutil.Process(server.process.pid).children(recursive=True):
                    with contextlib.suppress(psutil.Error):  # gone meanwhile
                        if "sglang::scheduler" in " ".join(child.cmdline()):
                            child.kill()

        with pytest.raises(EngineError, match=r"the engine ended with status -?\d+ before it was ready"):
            server.wait(300, kill_the_prober)


@pytest.mark.ci
def test_a_rank_that_does_not_answer_is_no_verdict(serve: Serve, models: dict[str, Path]) -> None:
    server = serve("moe", engine_tp=2, engine_ep=2)
    done = push([server.engine], models["moe"], "all answer")
    assert done.verdict.word == "consistent"
    children = psutil.Process(server.process.pid).children(recursive=True)
    rank = next(child for child in children if "scheduler_TP1" in " ".join(child.cmdline()))
    with frozen(rank.pid):
        silent = verify(done.summary, [Engine(server.engine.url, timeout=5.0)])
    assert "no answer in 5 s" in silent.failed[server.engine.url]
    assert silent.verdict(done.summary).word == "findings"
    assert verify(done.summary, [server.engine]).verdict(done.summary).word == "consistent"
