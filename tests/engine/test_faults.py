"""Faults in a real server's memory, pushed to and read back over HTTP: each is found and named."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.comparison import compare
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.engines.sglang.transports.from_disk import FromDisk
from bridge_plugins.errors import EngineError, PushError
from tests.engine.model_rank import Sizes
from tests.engine.pushed import Old, Pushed, summary_of, weights_of
from tests.engine.servers import Servers, fault
from tests.faults.named import Named

pytestmark = pytest.mark.ci

EXPERTS = ("Qwen3-MoE", Sizes(tp=2, ep=2))
STAGES = ("Qwen3, tied embeddings", Sizes(pp=2))


def test_what_was_pushed_is_served_and_every_byte_is_told(servers: Servers) -> None:
    found = Pushed(servers, *EXPERTS).compare()
    assert found.consistent, (found.not_compared, found.findings)
    assert found.compared_bytes == found.total_bytes
    assert 0 < found.engine_compared <= found.engine_served


def test_a_flipped_bit_is_found(servers: Servers) -> None:
    pushed = Pushed(servers, *EXPERTS)
    # Rank 1 has experts 2 and 3; row 5 of the first half of w13 is the gate's.
    fault(pushed.engine, "flip", rank=1, path="model.layers.1.mlp.experts.w13_weight", index=[1, 5, 7])
    found = pushed.compare()
    assert found.mismatched == ("model.layers.1.mlp.experts.3.gate_proj.weight",)
    assert "layer 1 expert 3" in str(found.findings[0])
    assert found.findings[0].ranks == (1,)


def test_a_replica_that_differs_is_found_with_its_rank(servers: Servers) -> None:
    pushed = Pushed(servers, *EXPERTS)
    fault(pushed.engine, "flip", rank=1, path="model.norm.weight", index=[3])
    found = pushed.compare()
    assert found.mismatched == ("model.norm.weight",)
    assert found.findings[0].ranks == (1,)


def test_exchanged_experts_are_named(servers: Servers) -> None:
    pushed = Pushed(servers, *EXPERTS)
    fault(pushed.engine, "exchange", rank=0, path="model.layers.0.mlp.experts.w", one=0, other=1)
    found = pushed.compare()
    assert len(found.mismatched) == 6
    said = "\n".join(map(str, found.findings))
    assert "layer 0" in said
    assert "exchanged" in said


@pytest.mark.fault(
    99,
    place="engine's memory",
    rule="READBACK",
    named="layer 1: the engine still serves version 1 of 21 tensors",
)
def test_a_layer_from_a_copy_made_before_is_stale(servers: Servers, named: Named) -> None:
    pushed = Pushed(servers, *EXPERTS, keep="model.layers.1.")
    fault(pushed.engine, "put_back", path="model.layers.1.")
    names = {name for name in pushed.new.records if name.startswith("model.layers.1.")}
    assert set(pushed.compare().mismatched) == names
    named(pushed.said())


def test_every_pipeline_stage_is_read_back_and_a_fault_on_the_second_one_is_found(
    servers: Servers, tmp_path: Path
) -> None:
    old = Old(servers, *STAGES, transport=FromDisk(tmp_path))
    engine, summary = old.engine, old.old
    found = compare(summary, engine.url, read_back(engine, summary), None)
    assert found.consistent, (found.not_compared, found.findings)
    name = "model.layers.1.input_layernorm.weight"
    fault(engine, "flip", rank=1, path=name, index=[0])
    found = compare(summary, engine.url, read_back(engine, summary), None)
    assert found.mismatched == (name,)
    assert found.findings[0].ranks == (1,)


def test_buckets_for_an_engine_with_pipeline_stages_are_refused_before_they_kill_it(servers: Servers) -> None:
    engine = servers.engine(*STAGES)
    with pytest.raises(PushError, match="2 pipeline stages"):
        push(weights_of(servers, STAGES[0]).items(), [engine])
    assert engine.healthy()


@pytest.mark.parametrize("key", [None, "a wrong one"])
def test_a_readback_without_the_servers_key_is_refused(servers: Servers, key: str | None) -> None:
    engine = servers.engine(*EXPERTS)
    stranger = Engine(engine.url, api_key=key)
    with pytest.raises(EngineError, match=rf"{engine.url}/weights_checker answered 40[13]"):
        read_back(stranger, summary_of(weights_of(servers, EXPERTS[0]), "1"))


def test_a_layout_can_be_found_out_while_the_server_runs(servers: Servers) -> None:
    from bridge_plugins.engines.sglang.answer import Layers

    engine = servers.engine("Qwen3-MoE", Sizes(), "live")
    new = weights_of(servers, "Qwen3-MoE", 0.5)
    summary = summary_of(new, "2")
    push(new.items(), [engine])
    with pytest.raises(EngineError, match=r"ask for the action bridge\.probe"):
        read_back(engine, summary)
    [told] = engine.ask("probe", Layers)
    assert told.compared == told.served
    # What was pushed is still there, not what the checkpoint has.
    found = compare(summary, engine.url, read_back(engine, summary), None)
    assert found.consistent, (found.not_compared, found.findings)


def test_a_server_whose_weights_do_not_come_back_does_not_start(servers: Servers) -> None:
    server = servers.start("Qwen3-MoE", Sizes(), BRIDGE_FAULT="lose")
    with pytest.raises(EngineError, match=r"did not come back, first: model\.norm\.weight"):
        server.wait(280)
