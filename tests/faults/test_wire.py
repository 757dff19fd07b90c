"""Faults between the bridge and the engine: buckets, casts, scales and adapters, audited as they are handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bridge_plugins.audit import Expected
from bridge_plugins.audit.declared import Declared
from tests.faults.conftest import Recorded
from tests.faults.named import Named
from tests.faults.quantised import expected_of, quantised
from tests.faults.streams import Stream, judged

pytestmark = pytest.mark.ci


def bucket_without_the_bias(items: Stream) -> None:
    """The list that was announced has it, the payload has not."""
    from bridge_plugins.engines.sglang.wire import Bucket

    Bucket([item for item in items if "e_score_correction_bias" not in item[0]])


def bucket_of_padded_rows(items: Stream) -> None:
    import torch

    from bridge_plugins.engines.sglang.wire import Bucket

    Bucket([(name, torch.cat([t, t[:64]]) if "embed_tokens" in name else t) for name, t in items])


def small_buckets(items: Stream) -> None:
    from bridge_plugins.engines.sglang.wire import Bucket

    for item in items:
        Bucket([item])


def bucket_in_bfloat16(items: Stream) -> None:
    import torch

    from bridge_plugins.engines.sglang.wire import Bucket

    Bucket([(name, tensor.to(torch.bfloat16)) for name, tensor in items])


@pytest.mark.parametrize(
    "transport",
    [
        pytest.param(bucket_without_the_bias, marks=pytest.mark.fault(
            39, place="bucket", rule="SET",
            named="layer 1: model.layers.1.mlp.gate.e_score_correction_bias of deepseek_v3-default never came",
        )),
        pytest.param(bucket_of_padded_rows, marks=pytest.mark.fault(
            54, place="bucket", rule="SHAPE",
            named="model.embed_tokens.weight: is [576, 64], the checkpoint has [512, 64]: 64 rows of padded vocabulary",
        )),
        pytest.param(small_buckets, marks=pytest.mark.fault(
            80, place="bucket", rule="PAIR", named="layer 0: q_a_proj and kv_a_proj_with_mqa are sent in two buckets",
        )),
    ],
)  # fmt: skip
def test_a_bucket_is_not_what_was_yielded(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named, transport: Any
) -> None:
    named(judged([recorded("deepseek_v3")], expected("deepseek_v3"), transport))


@pytest.mark.fault(
    57,
    place="transport",
    rule="DTYPE",
    named="layers 0-3: 4 tensors (model.layers.0.mlp.gate.weight, …) are bfloat16, are declared as float32",
)
def test_a_router_that_was_trained_wide_is_sent_narrow(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    wide = [
        (name, tensor.float() * 1.001 if ".mlp.gate." in name else tensor)
        for name, tensor in recorded("qwen3_moe")
    ]
    declared = Declared(dtypes=(("*.mlp.gate.weight", "float32"),))
    assert judged([wide], expected("qwen3_moe"), declared=declared) == []
    named(judged([wide], expected("qwen3_moe"), bucket_in_bfloat16, declared=declared))


def packed_for_another_engine(stream: Stream) -> Stream:
    """Four exponents in one word, as one engine's kernel wants them."""
    import torch

    return [
        (
            n,
            torch.zeros(t.shape[0], -(-t.shape[1] // 4), dtype=torch.int32)
            if n.endswith("_scale_inv")
            else t,
        )
        for n, t in stream
    ]


def scales_of_padded_blocks(stream: Stream) -> Stream:
    import torch

    return [(n, torch.ones(4, t.shape[1]) if n.endswith("_scale_inv") else t) for n, t in stream]


def without_scales(stream: Stream) -> Stream:
    return [item for item in stream if not item[0].endswith("_scale_inv")]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(packed_for_another_engine, marks=pytest.mark.fault(
            61, place="quantiser", rule="DTYPE",
            named="layers 0-3: 28 tensors (model.layers.0.mlp.gate_proj.weight_scale_inv, …) are int32, the",
        )),
        pytest.param(scales_of_padded_blocks, marks=pytest.mark.fault(
            61, place="quantiser", rule="SHAPE",
            named="layers 0-3: 4 tensors (model.layers.0.mlp.gate_proj.weight_scale_inv, …) are [4, 1]",
        )),
        pytest.param(without_scales, marks=pytest.mark.fault(
            65, place="quantiser", rule="PAIR",
            named="layer 0: 7 tensors (model.layers.0.mlp.down_proj.weight, …) are quantised and come without a scale",
        )),
    ],
)  # fmt: skip
def test_scales_that_do_not_go_with_their_weights(recorded: Recorded, named: Named, change: Any) -> None:
    whole = quantised(recorded("qwen3"))
    assert judged([whole], expected_of(whole)) == []
    named(judged([change(whole)], expected_of(whole)))


@pytest.mark.fault(63, place="quantiser", rule="SET", named="are sent without 28 of their scales")
def test_no_quantiser_at_all(recorded: Recorded, named: Named) -> None:
    plain = recorded("qwen3")
    named(judged([plain], expected_of(quantised(plain))))


@pytest.mark.fault(
    92,
    place="stream",
    rule="SET",
    named="layer 0: 2 tensors (model.layers.0.mlp.experts.gate_up_proj.lora_A.weight, …) are adapters of what",
)
def test_adapters_of_stacked_experts(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    import torch

    def adapters(owner: str) -> Stream:
        return [(f"model.layers.0.{owner}.lora_{side}.weight", torch.rand(8, 4, 64)) for side in "AB"]

    base = recorded("qwen3_moe")
    flat = [*base, *adapters("mlp.experts.0.gate_proj"), *adapters("self_attn.q_proj")]
    assert judged([flat], expected("qwen3_moe")) == []
    named(judged([[*flat, *adapters("mlp.experts.gate_up_proj")]], expected("qwen3_moe")))
