"""Public faults in a real server's loader and memory, with experts over two ranks: the readback finds and names each."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import EngineError, PushError
from tests.engine.model_rank import Sizes
from tests.engine.pushed import Old, Pushed
from tests.engine.servers import KEY, Servers, fault
from tests.faults.named import Named

pytestmark = pytest.mark.ci

EXPERTS = ("Qwen3-MoE", Sizes(tp=2, ep=2))


@pytest.fixture
def old(servers: Servers) -> Any:
    """An engine at version 1."""
    made = Old(servers, *EXPERTS)
    yield made
    fault(made.engine, "disarm")


@pytest.mark.fault(
    18, place="engine's loader", rule="READBACK",
    named="layers 0-1 (ranks 1): experts 2-3 carry the weights of experts 0-1",
)  # fmt: skip
def test_every_rank_of_the_experts_takes_the_first_ones(old: Old, named: Named) -> None:
    fault(old.engine, "arm", loader="local_experts")
    old.push()
    named(old.said())


@pytest.mark.parametrize(
    ("pattern", "by", "tensors"),
    [
        pytest.param(
            r"experts\.(\d)\.(\w+)\.weight", r"experts.\2.\1", 24, id="names of single experts",
            marks=pytest.mark.fault(
                30, place="engine's loader", rule="READBACK",
                named="layer 0: the engine still serves version 1 of 12 tensors"
            ),
        ),
        pytest.param(
            r"^", "language_model.", 45, id="past the prefix mapper",
            marks=pytest.mark.fault(
                31, place="engine's loader", rule="READBACK",
                named="layer 0: the engine still serves version 1 of 21 tensors"
            ),
        ),
        pytest.param(
            r"\.([qkv])_proj\.weight", r".\1_proj.packed", 6, id="packed names",
            marks=pytest.mark.fault(
                35, place="engine's loader", rule="READBACK", named="layer 1: the engine still serves version 1 of 3 tensors"
            ),
        ),
    ],
)  # fmt: skip
def test_names_that_the_engines_loader_passes_over(
    old: Old, named: Named, pattern: str, by: str, tensors: int
) -> None:
    fault(old.engine, "arm", loader="renamed", pattern=pattern, by=by)
    old.push()
    assert len(old.compare().mismatched) == tensors
    named(old.said())


@pytest.mark.fault(
    44, place="engine's memory", rule="READBACK",
    named="layers 0-1 expert 2 (ranks 1): 6 tensors (down_proj, gate_proj, up_proj) are unlike every tensor",
)  # fmt: skip
def test_what_is_not_sent_again_after_a_release_is_garbage(old: Old, named: Named) -> None:
    fault(old.engine, "garbage", path="model.")
    old.push(without=".experts.2.")
    assert set(old.compare().mismatched) == {name for name in old.new.records if ".experts.2." in name}
    named(old.said())


@pytest.mark.fault(
    51,
    place="engine's loader",
    rule="READBACK",
    named="layer 0: the engine still serves version 1 of 16 tensors",
)
def test_a_loader_that_goes_past_the_parameters_own(old: Old, named: Named) -> None:
    fault(old.engine, "arm", loader="by_own_names")
    old.push()
    found = set(old.compare().mismatched)
    assert "model.layers.0.input_layernorm.weight" not in found
    named(old.said())


@pytest.mark.fault(
    68,
    place="engine's loader",
    rule="READBACK",
    named="layer 1: the engine still serves version 1 of 12 tensors",
)
def test_a_loader_that_still_knows_the_tensors_of_the_first_load(old: Old, named: Named) -> None:
    fault(old.engine, "arm", loader="into_discarded_tensors", path=".mlp.experts.")
    old.push()
    assert len(old.compare().mismatched) == 24
    named(old.said())


@pytest.mark.fault(
    69, place="engine's loader", rule="READBACK",
    named="layer 1 experts 0-3: 12 tensors (down_proj, gate_proj, up_proj) are the reference times 2",
)  # fmt: skip
def test_what_follows_a_first_load_is_done_again(old: Old, named: Named) -> None:
    fault(old.engine, "arm", loader="scaled", path="model.layers.1.mlp.experts.", by=2.0)
    old.push(bucket_bytes=1 << 30)
    assert len(old.compare().mismatched) == 12
    named(old.said())


@pytest.mark.fault(
    72,
    place="engine's loader",
    rule="READBACK",
    named="layer 0: the engine still serves version 1 of 21 tensors",
)
def test_a_chunk_that_puts_back_the_layers_that_it_does_not_hold(old: Old, named: Named) -> None:
    fault(old.engine, "keep", path="model.layers.")
    fault(old.engine, "arm", loader="finished_by_chunk")
    old.push()
    named(old.said())


@pytest.mark.fault(
    98,
    100,
    place="version bookkeeping",
    rule="READBACK",
    named="layer 0: the engine still serves version 1 of 21 tensors",
)
def test_an_engine_that_no_push_came_to(old: Old, named: Named) -> None:
    assert len(old.compare().mismatched) == len(old.new.records)
    named(old.said())


class Failing(Engine):
    """Takes two buckets of a push."""

    count = 0

    def update_weights_from_tensor(self, payloads: list[str], load_format: str) -> None:
        self.count += 1
        if self.count > 2:
            raise EngineError(f"{self.url}: out of memory")
        super().update_weights_from_tensor(payloads, load_format)


@pytest.mark.fault(
    102, place="transport", rule="READBACK", named="layer 1: the engine still serves version 1 of 21 tensors"
)
def test_a_push_that_fails_half_way_leaves_a_mixture_and_no_label(old: Old, named: Named) -> None:
    before = old.engine.weight_version()
    old.engine = Failing(old.engine.url, api_key=KEY)
    with pytest.raises(PushError, match="out of memory"):
        old.push()
    assert old.engine.weight_version() == before
    assert 0 < len(old.compare().mismatched) < len(old.new.records)
    named(old.said())


@pytest.mark.fault(76, 103, place="engine's caches", rule="", named="")
def test_what_requests_have_left_behind_is_no_weight(servers: Servers, named: Named) -> None:
    pushed = Pushed(servers, *EXPERTS)
    fault(pushed.engine, "caches")
    assert pushed.compare().consistent
    named(pushed.said())


@pytest.mark.fault(113, place="engine's buffers", rule="", named="")
def test_a_derived_buffer_that_no_loader_writes_is_no_weight(servers: Servers, named: Named) -> None:
    pushed = Pushed(servers, *EXPERTS)
    fault(pushed.engine, "longer", path="model.layers.0.self_attn.rotary_emb.cos_sin_cache")
    assert pushed.compare().consistent
    named(pushed.said())
