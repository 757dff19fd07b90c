"""Public faults of draft models and of what a loader derives: DeepSeek with its next-token layer as a draft."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from torch import Tensor

from bridge_plugins.engines.sglang import push as pushing
from bridge_plugins.engines.sglang.buckets import NamedTensors
from tests.engine.architectures import DRAFTED
from tests.engine.model_rank import Sizes
from tests.engine.pushed import Old, summary_of
from tests.engine.servers import Servers, fault
from tests.faults.named import Named

pytestmark = pytest.mark.ci

ONE = Sizes()
DRAFT = "model.layers.2."  #: behind the target's two layers
ATTENTION = "model.layers.0.self_attn."


@pytest.fixture
def old(servers: Servers) -> Any:
    """An engine at version 1, its draft too."""
    made = Old(servers, DRAFTED, ONE)
    yield made
    fault(made.engine, "disarm")


def test_a_draft_that_was_pushed_is_part_of_the_verdict(old: Old) -> None:
    old.push()
    found = old.compare()
    assert found.consistent, (found.findings, found.not_compared)
    assert found.compared_bytes == found.total_bytes
    # The draft borrows the target's embedding and output layer.
    assert found.engine_compared == found.engine_served
    fault(old.engine, "flip", role="draft", path="model.decoder.input_layernorm.weight", index=[3])
    assert old.compare().mismatched == (f"{DRAFT}input_layernorm.weight",)


@pytest.mark.fault(
    94, 97, place="engine's loader", rule="READBACK",
    named="layer 2 (ranks 0): the draft model of the engine still serves version 1 of 30 tensors",
)  # fmt: skip
def test_an_update_that_reaches_the_target_alone(old: Old, named: Named) -> None:
    fault(old.engine, "arm", role="draft", loader="without", pattern="")
    old.push()
    found = old.compare()
    assert set(found.mismatched) == {name for name in old.new.records if name.startswith(DRAFT)}
    assert "still serves version 1 of 30 tensors" in str(found.findings[0])
    named(old.said())


@pytest.mark.fault(
    95, place="engine's loader", rule="READBACK",
    named="layer 2 (ranks 0): the draft model of the engine: model.layers.2.eh_proj.weight is the reference times",
)  # fmt: skip
def test_a_frozen_draft_that_is_processed_again(old: Old, named: Named) -> None:
    fault(old.engine, "arm", role="draft", loader="scaled", path="model.eh_proj.weight", by=2.0)
    old.push(without=DRAFT)
    # Held against what it was started with.
    old.new, old.old = old.old, old.new
    assert [name for name in old.compare().mismatched if name.startswith(DRAFT)] == [f"{DRAFT}eh_proj.weight"]
    named(line for line in old.said() if "layer 2" in line)


def test_a_draft_that_the_stream_does_not_carry_is_not_compared(old: Old) -> None:
    old.push(without=DRAFT)
    weights = {name: weight for name, weight in old.weights.items() if not name.startswith(DRAFT)}
    old.new = summary_of(weights, "2")
    found = old.compare()
    assert not found.mismatched
    assert set(found.not_compared) == {name for name in old.old.records if name.startswith(DRAFT)}
    assert set(found.not_compared.values()) == {
        "draft: the engine serves it, and the stream did not carry it"
    }


@pytest.mark.fault(
    96, place="engine's memory", rule="READBACK",
    named="layer 2 (ranks 0): the draft model of the engine: 25 tensors (model.layers.2.input_layernorm.weight, …) are",
)  # fmt: skip
def test_a_draft_that_is_not_sent_again_after_a_release(old: Old, named: Named) -> None:
    fault(old.engine, "garbage", role="draft", path="model.decoder.")
    old.push(without=DRAFT)
    named(old.said())


@pytest.mark.fault(
    77, place="engine's loader", rule="READBACK",
    named="model.embed_tokens.weight: not compared, draft: no weight of the checkpoint was loaded into it, "
    "and it is not the target's",
)  # fmt: skip
def test_a_draft_that_keeps_the_embedding_that_the_target_had(old: Old, named: Named) -> None:
    fault(old.engine, "arm", loader="into_a_new_tensor", path="model.embed_tokens.weight")
    old.push(bucket_bytes=1 << 30)
    found = old.compare()
    assert not found.consistent
    assert not found.mismatched
    named(old.said())


@pytest.mark.fault(
    67, place="engine's memory", rule="READBACK",
    named="layer 0 (ranks 0): model.layers.0.self_attn.kv_b_proj.weight is unlike every tensor of the reference; "
    "it lies in the engine's model.layers.0.self_attn.w_kc",
)  # fmt: skip
def test_a_derived_copy_that_is_not_made_again(old: Old, named: Named) -> None:
    fault(old.engine, "keep", path=f"{ATTENTION}w_kc")
    old.push()
    fault(old.engine, "put_back", path=f"{ATTENTION}w_kc")
    assert old.compare().mismatched == (f"{ATTENTION}kv_b_proj.weight",)
    named(old.said())


@pytest.mark.fault(75, place="engine's memory", rule="", named="")
def test_a_derived_copy_at_another_address_has_the_right_bits(old: Old, named: Named) -> None:
    old.push()
    fault(old.engine, "elsewhere", path=f"{ATTENTION}w_kc")
    assert old.compare().consistent
    named(old.said())


def one_by_one(stream: Iterable[tuple[str, Tensor]], _: int) -> Iterator[NamedTensors]:
    return ([item] for item in stream)


@pytest.mark.fault(
    80,
    place="bucket",
    rule="READBACK",
    named="layer 0 (ranks 0): the engine still serves version 1 of 2 tensors",
)
def test_projections_that_are_joined_and_come_in_two_buckets(
    old: Old, named: Named, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pushing, "buckets", one_by_one)
    old.push()
    joined = ("q_a_proj.weight", "kv_a_proj_with_mqa.weight")
    assert all(name.endswith(joined) for name in old.compare().mismatched)
    named(old.said())
