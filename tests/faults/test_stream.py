"""Faults of whoever hands the stream on: names, layouts and tensors that never travel."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from bridge_plugins.audit import Expected
from tests.faults.conftest import Recorded
from tests.faults.named import Named
from tests.faults.streams import Stream, judged
from tests.stacks.models import NEW_ROPE

pytestmark = pytest.mark.ci


def without(word: str) -> Callable[[Stream], Stream]:
    return lambda stream: [item for item in stream if word not in item[0]]


def index_without_offset(stream: Stream) -> Stream:
    """The second stage counts its layers from 0 again."""
    return [(re.sub(r"\.layers\.(\d)", lambda m: f".layers.{int(m[1]) % 2}", name), t) for name, t in stream]


def converter_of_a_text_model(stream: Stream) -> Stream:
    return [(name.replace("language_model.", ""), tensor) for name, tensor in without("visual")(stream)]


def converter_of_another_attention(stream: Stream) -> Stream:
    """What has no rule for a fused projection leaves it as the trainer calls it."""
    import torch

    known = {name: tensor for name, tensor in stream if re.search(r"\.[qkv]_proj\.", name)}
    rest = [item for item in stream if item[0] not in known]
    for layer in range(4):
        parts = [known[f"model.layers.{layer}.self_attn.{part}_proj.weight"] for part in "qkv"]
        rest.append((f"model.layers.{layer}.self_attn.linear_qgkv.weight", torch.cat(parts)))
    return rest


def stacked(stream: Stream) -> Stream:
    """All experts of a layer as one tensor of three dimensions."""
    import torch

    experts: dict[str, list[Any]] = {}
    for name, tensor in stream:
        if ".experts." in name:
            experts.setdefault(re.sub(r"experts\.\d+\.(\w+)\.weight", r"experts.\1", name), []).append(tensor)
    return [
        *without(".experts.")(stream),
        *((name, torch.stack(members)) for name, members in experts.items()),
    ]


@pytest.mark.parametrize(
    ("family", "change"),
    [
        pytest.param("qwen3", index_without_offset, marks=pytest.mark.fault(
            5, place="stream", rule="UNIQ", named="layer 1: 11 tensors (model.layers.1.input_layernorm.weight, …) came more",
        )),
        pytest.param("qwen3_vl_moe", converter_of_a_text_model, marks=[NEW_ROPE, pytest.mark.fault(
            28, place="stream", rule="SET",
            named="layer 3: 11 tensors (model.layers.3.input_layernorm.weight, …) came that",
        )]),
        pytest.param("qwen3_vl_moe", without("visual"), marks=[NEW_ROPE, pytest.mark.fault(
            32, place="stream", rule="SET",
            named="visual.blocks layer 0: 12 tensors (model.visual.blocks.0.attn.proj.bias, …) of qwen3_vl_moe-default",
        )]),
        pytest.param("qwen3", converter_of_another_attention, marks=pytest.mark.fault(
            33, place="stream", rule="SET", named="layer 0: model.layers.0.self_attn.linear_qgkv.weight came that",
        )),
        pytest.param("qwen3_moe", stacked, marks=pytest.mark.fault(
            34, place="stream", rule="SET", named="layer 0: 3 tensors (model.layers.0.mlp.experts.down_proj, …) came that",
        )),
    ],
)  # fmt: skip
def test_another_converters_names(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named, family: str, change: Any
) -> None:
    named(judged([change(recorded(family))], expected(family)))


@pytest.mark.fault(
    29,
    place="stream",
    rule="SET",
    named="layer 0: model.layers.0.mlp.gate_up_proj.weight of fused never came",
)
def test_halves_where_the_checkpoint_has_the_whole(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    from bridge_plugins.layout.sources import Source

    halves = expected("qwen3").sources
    fused = {n: s for n, s in halves.items() if "gate_proj" not in n and "up_proj" not in n}
    for layer in range(4):
        name = f"model.layers.{layer}.mlp.gate_up_proj.weight"
        fused[name] = Source(name, (192, 64), "bfloat16")
    named(
        judged(
            [recorded("qwen3")],
            dataclasses.replace(expected("qwen3"), origin="fused", sources=fused, records={}),
        )
    )


@NEW_ROPE
@pytest.mark.fault(
    43,
    place="stream",
    rule="SET",
    named="visual.blocks layer 3: 12 tensors (model.visual.blocks.3.attn.proj.bias, …) of qwen3_vl_moe-default never came",
)
def test_towers_that_are_frozen_and_not_sent_again(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    whole = recorded("qwen3_vl_moe")
    named(judged([whole, without("visual")(whole)], expected("qwen3_vl_moe")))


@pytest.mark.fault(
    89,
    place="stream",
    rule="SET",
    named="layer 0: 11 tensors (model.layers.0.input_layernorm.weight, …) of qwen3-default never came",
)
def test_an_adapter_alone_after_the_base_was_discarded(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    import torch

    adapter = [("model.layers.0.self_attn.q_proj.lora_A.weight", torch.ones(4, 64))]
    named(judged([recorded("qwen3"), adapter], expected("qwen3")))
