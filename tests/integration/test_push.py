"""A push that works: by every transport, paused and not, to several engines, and after a strict audit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import wrapt
from torch import Tensor

from bridge_plugins.audit import Expected, WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.engines.sglang.transports.from_disk import FromDisk, stored
from bridge_plugins.engines.sglang.transports.from_distributed import FromDistributed
from bridge_plugins.engines.sglang.transports.from_tensor import FromTensor
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.errors import EngineError, PushError, UsageError, VetoError
from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.plugins import manager
from tests.integration.conftest import Serve
from tests.integration.weights import version


class Connecting(wrapt.ObjectProxy):  # type: ignore[misc]
    """A group of gloo that connects as NCCL does: a broadcast returns once the other side takes part."""

    def broadcast(self, tensor: Tensor, root: int) -> Any:
        work = self.__wrapped__.broadcast(tensor, root)
        work.wait(timedelta(seconds=60))
        return work


class ConnectingLate(FromDistributed):
    def _join(self, engine: Engine) -> Any:
        joined = super()._join(engine)
        return dataclasses.replace(joined, group=Connecting(joined.group))


TRANSPORTS: dict[str, Callable[[Path], Transport]] = {
    "tensor": lambda _: FromTensor(),
    "distributed": lambda _: FromDistributed(timeout=60),
    "distributed, connecting late": lambda _: ConnectingLate(timeout=60),
    "disk": lambda folder: FromDisk(folder),
}


def sync(engine: Engine, **options: Any) -> WeightSync:
    return WeightSync(WeightAudit("moe"), [engine], bucket_bytes=300_000, **options)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("engine_tp", [1, pytest.param(2, marks=pytest.mark.ci)], ids=lambda tp: f"TP={tp}")
def test_two_versions_arrive_by_every_transport(
    serve: Serve, models: dict[str, Path], tmp_path: Path, transport: str, engine_tp: int
) -> None:
    engine = serve("moe", engine_tp=engine_tp, engine_ep=engine_tp).engine
    way = TRANSPORTS[transport](tmp_path / "versions")
    pushing = sync(engine, transport=way)
    try:
        for number in (1, 0):  # the server is left with the checkpoint's own weights
            trained = number == 0
            done = pushing.push(
                version(models["moe"], number).items(), f"{transport} {number}", trained=trained
            )
            assert str(done.verdict).startswith("VERDICT consistent"), done.verdict.findings
            comparison = done.comparisons[0]
            assert comparison.compared_bytes == comparison.total_bytes == done.pushed.nbytes > 2_000_000
            assert engine.weight_version() == f"{transport} {number}"
            assert done.pushed.buckets > 5
    finally:
        way.close()
    assert len(list((tmp_path / "versions").glob("*"))) == (transport == "disk")


def test_a_folder_that_was_saved_already_is_pushed_as_it_is(serve: Serve, models: dict[str, Path]) -> None:
    engine = serve("moe").engine
    sync(engine).push(version(models["moe"], 2).items(), "other")
    pushing = sync(engine, transport=FromDisk(models["moe"], written=True))
    before = sorted(models["moe"].rglob("*"))
    assert pushing.push(stored(models["moe"]), "folder").verdict.word == "consistent"
    assert engine.weight_version() == "folder"
    assert sorted(models["moe"].rglob("*")) == before


@pytest.mark.parametrize("mode", ["abort", "retract", "in_place"])
def test_requests_wait_while_their_engine_is_paused_and_go_on_after_it(
    serve: Serve, models: dict[str, Path], mode: Any
) -> None:
    engine = serve("moe").engine
    asking = {"input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 4, "ignore_eos": True}}
    with ThreadPoolExecutor(1) as other:
        waiting: list[Any] = []

        def stream() -> Iterator[tuple[str, Tensor]]:
            items = list(version(models["moe"], 0).items())
            yield items[0]
            waiting.append(other.submit(engine.generate, **asking))
            yield from items[1:]
            assert not waiting[0].done()

        assert sync(engine, pause=mode).push(stream(), f"paused {mode}").verdict.word == "consistent"
        reply = waiting[0].result(timeout=60)
    assert reply["meta_info"]["weight_version"] == f"paused {mode}"


def test_an_engine_that_holds_a_part_of_a_version_stays_paused(serve: Serve, models: dict[str, Path]) -> None:
    engine = serve("moe").engine
    weights = version(models["moe"], 0)

    def broken() -> Iterator[tuple[str, Tensor]]:
        yield from list(weights.items())[:40]
        raise RuntimeError("a rank is gone")

    quick = Engine(engine.url, timeout=3.0)
    asking = {"input_ids": [5, 6, 7], "sampling_params": {"max_new_tokens": 1}}
    with pytest.raises(RuntimeError, match="a rank is gone"):
        sync(engine, pause="retract").push(broken(), "half")
    try:
        with pytest.raises(EngineError, match="no answer in 3 s"):
            quick.generate(**asking)
    finally:
        engine.continue_generation()
    assert sync(engine).push(weights.items(), "whole").verdict.word == "consistent"
    assert quick.generate(**asking)


class Recorder(Engine):
    """An engine that writes down what it is asked to do."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.asked: list[str] = []

    def _request(self, method: str, path: str, *arguments: Any, **options: Any) -> Any:
        self.asked.append(path)
        return super()._request(method, path, *arguments, **options)


def test_a_strict_audit_objects_before_a_byte_is_sent(serve: Serve, models: dict[str, Path]) -> None:
    engine = Recorder(serve("moe").engine.url)
    weights = version(models["moe"], 0)
    missing = dict(list(weights.items())[1:])
    audit = WeightAudit("moe", expected=Expected.from_folder(models["moe"]), strict=True)
    pushing = WeightSync(audit, [engine], bucket_bytes=300_000, pause="retract")
    with pytest.raises(VetoError, match="SET"):
        pushing.push(missing.items(), "strict")
    assert engine.asked == []
    done = pushing.push(lambda: iter(weights.items()), "whole")
    assert done.verdict.word == "consistent"
    assert engine.weight_version() == "whole"


def test_a_strict_audit_finds_an_export_that_is_not_the_audited_one(
    serve: Serve, models: dict[str, Path]
) -> None:
    engine = serve("moe").engine
    engine.set_weight_version("before")
    exports = [version(models["moe"], 0), version(models["moe"], 0)]
    name = "model.layers.3.mlp.gate.weight"
    exports[1][name] = exports[1][name] * 2
    pushing = WeightSync(WeightAudit("moe", strict=True), [engine])
    with pytest.raises(PushError, match=rf"1 tensors \({name}, …\) were pushed with other bits"):
        pushing.push(lambda: exports.pop(0).items(), "moving")
    assert engine.weight_version() == "before"


def test_a_strict_audit_needs_a_stream_that_can_be_had_twice(serve: Serve, models: dict[str, Path]) -> None:
    pushing = WeightSync(WeightAudit("moe", strict=True), [serve("moe").engine])
    with pytest.raises(UsageError, match=r"give a function, as in sync\.push\(lambda"):
        pushing.push(iter(version(models["moe"], 0).items()), "once")


@pytest.mark.ci
def test_engines_of_other_topologies_get_one_version_at_once(serve: Serve, models: dict[str, Path]) -> None:
    engines = [serve("moe").engine, serve("moe", engine_tp=2, engine_ep=2).engine]
    pushing = WeightSync(WeightAudit("moe"), engines, bucket_bytes=300_000)
    for number, label in ((1, "both"), (0, "both again")):
        done = pushing.push(version(models["moe"], number).items(), label, trained=number == 0)
        assert done.verdict.word == "consistent"
        assert [comparison.engine for comparison in done.comparisons] == [engine.url for engine in engines]
        assert [engine.weight_version() for engine in engines] == [label, label]


def test_a_hook_sees_the_verdict_and_its_failure_stops_nothing(serve: Serve, models: dict[str, Path]) -> None:
    seen: list[Any] = []

    class Sink:
        @hookimpl
        def after_push(self, verdict: Any, comparisons: Any) -> None:
            seen.append((verdict.word, len(comparisons)))
            raise RuntimeError("the sink is full")

    sink = Sink()
    manager().register(sink)
    try:
        done = sync(serve("moe").engine).push(version(models["moe"], 0).items(), "told")
    finally:
        manager().unregister(sink)
    assert done.verdict.word == "consistent"
    assert seen == [("consistent", 1)]
