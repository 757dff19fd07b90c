"""SHAPE, DTYPE, DELTA, STATS, PAIR, MANIFEST, WIRE, VERSION: each fault is seen and named; what is usual is not."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
import torch

from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.rules import BUILT_IN, Context, Witness
from bridge_plugins.audit.rules.delta import Delta
from bridge_plugins.audit.rules.dtypes import Dtypes
from bridge_plugins.audit.rules.hash import Hash
from bridge_plugins.audit.rules.manifest import Manifest
from bridge_plugins.audit.rules.pairs import Pairs
from bridge_plugins.audit.rules.shapes import Shapes
from bridge_plugins.audit.rules.stats import Stats
from bridge_plugins.audit.rules.version import Version
from bridge_plugins.audit.rules.wire import Wire
from tests.unit.audit.model import Change, Weights, expected, found, said, summary, weights

UP = "model.layers.3.mlp.experts.1.up_proj.weight"
ROUTER = "model.layers.0.mlp.gate.weight"


def changed(name: str, change: Any, tensors: Weights | None = None) -> Weights:
    return {n: change(t) if n == name else t for n, t in (tensors or weights()).items()}


def test_a_clean_version_has_no_finding_of_any_rule() -> None:
    context = Context(expected=expected(weights()), previous=summary(weights(), version="0"), trained=False)
    assert [f for rule in BUILT_IN for f in found(rule, weights(), context)] == []


def test_shape_sees_a_shard_and_padding() -> None:
    (finding,) = found(Shapes(), changed(UP, lambda t: t[:4]))
    assert str(finding).startswith(
        "SHAPE layer 3 expert 1 mlp.experts.1.up_proj.weight: is [4, 16], the checkpoint has [8, 16]"
    )
    (finding,) = found(Shapes(), changed("lm_head.weight", lambda t: torch.cat([t, t])))
    assert "8 rows of padded vocabulary were left in" in finding.what
    assert (finding.expected, finding.found) == ("[8, 16]", "[16, 16]")


def test_shape_tells_of_one_kind_once_over_all_layers_and_experts() -> None:
    cut = {n: t[:4] if "up_proj" in n else t[:, :8] if "down_proj" in n else t for n, t in weights().items()}
    up, down = found(Shapes(), cut)
    assert str(up).startswith(
        "SHAPE layers 0-5 experts 0-3: 24 tensors (model.layers.0.mlp.experts.0.up_proj.weight, …) are [4, 16], "
    )
    assert (down.where, down.found, len(down.names)) == ("layers 0-5 experts 0-3", "[8, 8]", 24)


def test_shape_judges_the_last_stage() -> None:
    padded = changed("lm_head.weight", lambda t: torch.cat([t, t]))
    cut = Context(expected=expected(weights()), wire=summary(weights(), stage="wire"))
    assert found(Shapes(), padded, cut) == []


@pytest.mark.parametrize(
    ("change", "severities"),
    [
        (lambda t: t.half(), ["error"]),
        (lambda t: t.to(torch.float8_e4m3fn), ["error"]),
        (lambda t: t.float(), ["info"]),
        (lambda t: t, []),
    ],
)
def test_dtype_tells_a_lossy_cast_from_a_wide_one(change: Any, severities: list[str]) -> None:
    assert [finding.severity for finding in found(Dtypes(), changed(UP, change))] == severities


def test_dtype_leaves_a_wide_router_and_a_quantised_weight_alone() -> None:
    assert found(Dtypes(), changed(ROUTER, lambda t: t.float())) == []
    quantised = {**changed(UP, lambda t: t.to(torch.float8_e4m3fn)), f"{UP}_scale_inv": torch.ones(1, 1)}
    assert found(Dtypes(), quantised) == []


def test_dtype_judges_what_is_sent_too() -> None:
    wide = {n: t.float() if ".mlp.gate." in n else t for n, t in weights().items()}
    sent = summary(weights(), stage="wire")
    (told,) = found(Dtypes(), wide, Context(expected=expected(weights()), wire=sent))
    assert (told.severity, told.found, len(told.names)) == ("info", "bfloat16", 6)
    declared = Declared(dtypes=(("*.mlp.gate.weight", "float32"),))
    findings = found(Dtypes(), wide, Context(expected=expected(weights()), wire=sent, declared=declared))
    assert [finding.severity for finding in findings] == ["error", "info"]


def test_a_derived_buffer_may_have_any_shape_dtype_and_bits() -> None:
    name = "model.layers.0.self_attn.rotary_emb.cos_sin_cache"
    truth = {**weights(), name: torch.rand(8, 4)}
    for other in (torch.rand(16, 4), torch.rand(8, 4).half(), torch.rand(8, 4)):
        context = Context(expected=expected(truth, records=summary(truth).records))
        assert [f for rule in BUILT_IN for f in found(rule, {**weights(), name: other}, context)] == []


def test_dtype_meets_a_declared_policy_exactly() -> None:
    # Trained in float32, sent as bfloat16: the checkpoint is bfloat16 too, only the declaration tells.
    declared = Declared(dtypes=(("*.mlp.gate.weight", "float32"),))
    context = Context(expected=expected(weights()), declared=declared)
    (finding,) = found(Dtypes(), weights(), context)
    assert len(finding.names) == 6
    assert str(finding).startswith(
        "DTYPE layers 0-5: 6 tensors (model.layers.0.mlp.gate.weight, …) are bfloat16, "
    )
    wide = {n: t.float() if ".mlp.gate." in n else t for n, t in weights().items()}
    assert found(Dtypes(), wide, context) == []


def test_hash_sees_a_bit_and_leaves_another_dtype_or_shape_to_its_rule() -> None:
    truth = dataclasses.replace(expected(weights()), records=summary(weights()).records)
    context = Context(expected=truth)
    assert found(Hash(), weights(), context) == []
    (finding,) = found(Hash(), changed(UP, lambda t: -t), context)
    assert (finding.rule, finding.parameter) == ("HASH", UP)
    assert found(Hash(), changed(UP, lambda t: t.float()), context) == []
    assert found(Hash(), changed("lm_head.weight", lambda t: torch.cat([t, t])), context) == []
    assert found(Hash(), changed(UP, lambda t: -t), dataclasses.replace(context, trained=True)) == []


def delta(second: Weights, *, trained: bool | None, frozen: tuple[str, ...] = ()) -> list[str]:
    context = Context(
        previous=summary(weights(), version="1"), trained=trained, declared=Declared(frozen=frozen)
    )
    return [f"{f.severity}: {f}" for f in found(Delta(), second, context, version="2")]


def test_hash_sees_a_base_beside_its_adapters() -> None:
    truth = dataclasses.replace(expected(weights()), records=summary(weights()).records)
    base = {n.replace("q_a_proj.", "q_a_proj.base_layer."): t for n, t in weights().items()}
    assert found(Hash(), base, Context(expected=truth)) == []
    name = "model.layers.2.self_attn.q_a_proj.base_layer.weight"
    (finding,) = found(Hash(), changed(name, lambda t: t - 1, base), Context(expected=truth))
    assert finding.layer == "layer 2"


def test_delta() -> None:
    moved = changed(UP, lambda t: t + 1)
    assert delta(weights(), trained=False) == []
    assert delta(weights(), trained=None) == []
    assert delta(weights(), trained=True)[0].startswith("error: DELTA model: no tensor moved since version 1")
    assert delta(moved, trained=True)[0].startswith("info: DELTA model: 97 of 98 tensors have the bits")
    assert delta(moved, trained=False)[0].startswith(
        "error: DELTA layer 3: 1 tensors moved since version 1 although no step"
    )
    for trained in (True, None, False):
        line = delta(moved, trained=trained, frozen=("*.up_proj.weight",))[0]
        assert line.startswith(
            f"error: DELTA layer 3: {UP} moved since version 1 although declared frozen"
        ), line


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t: t * 1e5, "1000 times larger than in every neighbouring layer"),
        (lambda t: t * 1e-5, "1000 times smaller than in every neighbouring layer"),
        (torch.zeros_like, "all zeros, and in no neighbouring layer"),
    ],
)
def test_stats_sees_a_tensor_unlike_its_neighbours(change: Any, what: str) -> None:
    (finding,) = found(Stats(), changed(UP, change))
    assert finding.severity == "warning"
    assert str(finding).startswith(f"STATS layer 3: {UP} is {what}")


def test_stats_leaves_the_outliers_of_real_checkpoints_alone() -> None:
    # Biases of Qwen2's first layer, a sink's norm, one element of a massive activation: some hundred times.
    assert found(Stats(), changed(UP, lambda t: t * 300)) == []
    one = weights()
    one[UP][0, 0] = 3e3
    assert found(Stats(), one) == []
    zeros = {n: torch.zeros_like(t) if "down_proj" in n else t for n, t in weights().items()}
    assert found(Stats(), zeros) == []


def test_stats_sees_values_that_are_no_numbers() -> None:
    (finding,) = found(Stats(), changed(UP, lambda t: t.index_fill(0, torch.tensor([0]), float("inf"))))
    assert "16 elements are NaN or infinite" in finding.what
    assert (finding.severity, finding.found) == ("error", "16 of 128")
    diverged = found(Stats(), {n: t * float("nan") for n, t in weights().items()})
    assert len(diverged) == 2 + 6  # a layer at a time, and what is outside of layers
    assert str(diverged[-1]).startswith(
        "STATS layer 5: 1936 elements of 16 tensors (model.layers.5.input_layernorm"
    )


def copied(here: str, there: str) -> Change:
    return lambda tensors: {
        n: tensors[n.replace(here, there)] if here in n else t for n, t in tensors.items()
    }


def test_stats_sees_a_layer_that_was_written_twice() -> None:
    lines = said(found(Stats(), copied("layers.4.", "layers.1.")(weights())))
    assert len(lines) == 1
    assert lines[0].startswith("STATS layer 4: 15 tensors")
    assert "have the very bits of another tensor of layer 1" in lines[0]


def test_stats_sees_an_expert_that_was_written_twice_after_a_step() -> None:
    truth = dataclasses.replace(expected(weights()), records=summary(weights()).records)
    context = Context(expected=truth, previous=summary(weights(), version="1"), trained=True)
    twice = copied("layers.4.mlp.experts.2.", "layers.4.mlp.experts.1.")(weights())
    (line,) = said(found(Stats(), {n: 1.01 * t for n, t in twice.items()}, context))
    assert line.startswith("STATS layer 4: 3 tensors (model.layers.4.mlp.experts.2.")
    assert "have the very bits of another tensor of expert 1" in line


def test_stats_leaves_twins_alone_that_a_reason_explains() -> None:
    tied = changed("lm_head.weight", lambda _: weights()["model.embed_tokens.weight"])
    assert found(Stats(), tied) == []
    upcycled = weights()
    for expert in range(1, 4):
        upcycled = copied(f"experts.{expert}.", "experts.0.")(upcycled)
    assert found(Stats(), upcycled) == []
    truth = dataclasses.replace(expected(upcycled), records=summary(upcycled).records)
    assert found(Stats(), upcycled, Context(expected=truth)) == []
    # A model made by copying layers has them in its checkpoint too.
    deeper = copied("layers.4.", "layers.1.")(weights())
    truth = dataclasses.replace(expected(deeper), records=summary(deeper).records)
    assert found(Stats(), deeper, Context(expected=truth)) == []


def test_pair_sees_a_scale_without_its_weight_and_a_weight_without_its_scale() -> None:
    fp8 = changed(UP, lambda t: t.to(torch.float8_e4m3fn))
    assert said(found(Pairs(), fp8))[0].startswith(
        f"PAIR layer 3: {UP} is quantised and comes without a scale"
    )
    scale = {f"{UP}_scale_inv": torch.ones(1, 1)}
    assert found(Pairs(), {**fp8, **scale}) == []
    alone = {n: t for n, t in {**weights(), **scale}.items() if n != UP}
    assert f"{UP}_scale_inv is a scale and comes without its weight" in " ".join(said(found(Pairs(), alone)))


def test_pair_sees_one_half_of_what_an_engine_fuses() -> None:
    half = {n: t for n, t in weights().items() if n != UP}
    (finding,) = found(Pairs(), half)
    assert "gate_proj.weight comes alone: an engine fuses gate_proj and up_proj" in finding.what
    assert (finding.layer, finding.expert) == ("layer 3", 1)
    assert found(Pairs(), half, partial="some") == []
    ungated = {n: t for n, t in weights().items() if "gate_proj" not in n}
    assert found(Pairs(), ungated) == []


def test_pair_leaves_an_adapter_of_one_half_alone() -> None:
    adapter = {UP.replace(".weight", f".lora_{side}.weight"): torch.rand(8, 4) for side in "AB"}
    assert found(Pairs(), {**weights(), **adapter}) == []


def test_pair_sees_a_pair_that_one_load_call_must_have_in_two_buckets() -> None:
    sent = summary(weights(), bucket=1, stage="wire")
    context = Context(wire=sent)
    assert found(Pairs(), weights(), context) == []
    name = "model.layers.2.self_attn.kv_a_proj_with_mqa.weight"
    apart = {**sent.records, name: msgspec.structs.replace(sent.records[name], bucket=2)}
    context = Context(wire=msgspec.structs.replace(sent, records=apart))
    (finding,) = found(Pairs(), weights(), context)
    assert str(finding).startswith("PAIR layer 2: q_a_proj and kv_a_proj_with_mqa are sent in two buckets")


def witness(rank: int, tensors: Weights, **fields: Any) -> Witness:
    return dataclasses.replace(Witness.of(summary(tensors), rank), **fields)


def test_manifest_names_the_ranks_and_the_layers_that_differ() -> None:
    witnesses = tuple(
        witness(rank, weights() if rank < 2 else changed(UP, torch.zeros_like)) for rank in range(4)
    )
    (finding,) = found(Manifest(), weights(), Context(witnesses=witnesses))
    assert finding.ranks == (2, 3)
    assert str(finding).startswith(
        "MANIFEST model.layers.3 (ranks 2, 3): ranks exported other weights than rank 0"
    )
    assert found(Manifest(), weights(), Context(witnesses=witnesses[:2])) == []


def test_manifest_sees_another_order() -> None:
    witnesses = (witness(0, weights(), manifest="a"), witness(1, weights(), manifest="b"))
    (finding,) = found(Manifest(), weights(), Context(witnesses=witnesses))
    assert finding.ranks == (1,)
    assert "ranks exported in another order than rank 0" in finding.what


def test_wire_sees_bits_that_changed_on_their_way() -> None:
    sent = summary(changed(UP, lambda t: t.flip(0)), stage="wire")
    (finding,) = found(Wire(), weights(), Context(wire=sent))
    assert str(finding).startswith(f"WIRE layer 3: {UP} is sent with other bits than the bridge yielded")
    assert found(Wire(), weights(), Context(wire=summary(weights(), stage="wire"))) == []


def test_wire_leaves_alone_what_frameworks_change_on_purpose() -> None:
    padded = changed("lm_head.weight", lambda t: torch.cat([t, t]))
    wrapped = {n.replace("q_a_proj.", "q_a_proj.base_layer."): t for n, t in padded.items()}
    sent = {n: t.to(torch.float8_e4m3fn) if n == UP else t for n, t in weights().items() if "kv_a" not in n}
    assert (
        found(Wire(), wrapped, Context(wire=summary({**sent, "draft.w": torch.ones(1)}, stage="wire"))) == []
    )


def test_wire_sees_a_view_that_a_transport_would_send_as_it_lies() -> None:
    sent = summary(weights(), stage="wire")
    strided = {**sent.records, UP: msgspec.structs.replace(sent.records[UP], contiguous=False)}
    (finding,) = found(Wire(), weights(), Context(wire=msgspec.structs.replace(sent, records=strided)))
    assert finding.severity == "warning"
    assert "handed over as a view that does not lie in one piece" in finding.what


def test_version() -> None:
    def said_of(version: str, before: str, tensors: Weights) -> list[str]:
        context = Context(previous=summary(weights(), version=before))
        return [f"{f.severity}: {f}" for f in found(Version(), tensors, context, version=version)]

    other = weights(seed=1)
    assert said_of("2", "1", other) == said_of("step-9", "step-8", other) == []
    assert said_of("1", "1", weights()) == []  # the same weights again
    assert said_of("1", "1", other)[0].startswith(
        "error: VERSION model: the label 1 was given to other weights"
    )
    assert said_of("1", "2", other)[0].startswith("warning: VERSION model: version 1 comes after version 2")
    witnesses = (witness(0, weights()), witness(1, weights(), version="0"))
    (finding,) = found(Version(), weights(), Context(witnesses=witnesses))
    assert (finding.ranks, finding.expected, finding.found) == ((1,), "1", "0")


def test_every_rule_says_what_it_cannot_see() -> None:
    for rule in BUILT_IN:
        assert "annot see" in (type(rule).__doc__ or ""), rule.code
