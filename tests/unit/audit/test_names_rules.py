"""SET, UNIQ and COV: names before bits. Each fault is seen, and what only looks like one is left alone."""

from __future__ import annotations

import re

import pytest
import torch

from bridge_plugins.audit import Expected
from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.rules import Context
from bridge_plugins.audit.rules.coverage import Coverage
from bridge_plugins.audit.rules.set import NameSet
from bridge_plugins.audit.rules.unique import Unique
from tests.unit.audit.model import Weights, expected, found, said, summary, weights

MTP = {f"model.layers.6.{name}": torch.randn(4, 4) for name in ("eh_proj.weight", "shared_head.head.weight")}


def without(pattern: str, tensors: Weights | None = None) -> Weights:
    return {name: t for name, t in (tensors or weights()).items() if not re.search(pattern, name)}


def test_a_clean_version_has_no_finding() -> None:
    for rule in (NameSet(), Unique(), Coverage()):
        assert found(rule, weights()) == []


def test_set_names_what_never_came_and_what_came_uncalled_for() -> None:
    tensors = {**without(r"layers\.2\."), "model.layers.3.mlp.odd": torch.ones(2)}
    lines = said(found(NameSet(), tensors))
    assert lines[0].startswith(
        "SET layer 2: 16 tensors (model.layers.2.input_layernorm.weight, …) of the checkpoint never"
    )
    assert lines[1].startswith("SET layer 3: model.layers.3.mlp.odd came that the checkpoint does not have")
    finding = found(NameSet(), without(r"layers\.4\.mlp\.experts\.2\.up_proj"))[0]
    assert (finding.layer, finding.expert) == ("layer 4", 2)
    assert finding.parameter == "model.layers.4.mlp.experts.2.up_proj.weight"
    assert (finding.expected, finding.found, finding.severity) == ("present", "absent", "error")


@pytest.mark.parametrize(
    ("tensors", "truth", "fields", "declared"),
    [
        # What frameworks send beside the model.
        ({**weights(), "model.layers.0.self_attn.q_a_proj.lora_A.weight": torch.ones(4)}, weights(), {}, Declared()),
        ({**weights(), "model.layers.0.self_attn.attn.k_scale": torch.ones(1)}, weights(), {}, Declared()),
        # The index lists the output layer of a tied model, or the stream has it although the index doesn't.
        (without("lm_head"), weights(), {"tied": True}, Declared()),
        (weights(), without("lm_head"), {"tied": True}, Declared()),
        # Derived buffers, on either side.
        ({**weights(), "model.layers.0.self_attn.rotary_emb.inv_freq": torch.ones(4)}, weights(), {}, Declared()),
        (weights(), {**weights(), "model.rotary_emb.cos_sin_cache": torch.ones(4)}, {}, Declared()),
        # A quantised stream of a checkpoint that is not.
        ({**weights(), "lm_head.weight_scale_inv": torch.ones(4)}, weights(), {}, Declared()),
        (without("vision"), {**weights(), "vision.patch.weight": torch.ones(4)}, {}, Declared(unmapped=("vision.*",))),
        # Adapters that are not merged rename what they wrap.
        ({n.replace("q_a_proj.", "q_a_proj.base_layer."): t for n, t in weights().items()}, weights(), {}, Declared()),
    ],
    ids=["adapter alone", "cache scale", "tied", "tied too", "buffer", "buffer too", "quantised", "unmapped", "adapters"],
)  # fmt: skip
def test_set_leaves_alone_what_only_looks_missing(
    tensors: Weights, truth: Weights, fields: dict[str, bool], declared: Declared
) -> None:
    context = Context(expected=expected(truth, **fields), declared=declared)
    assert found(NameSet(), tensors, context) == []


def test_a_tied_name_is_missing_of_a_model_that_is_not_tied() -> None:
    assert (
        "SET lm_head.weight: lm_head.weight of the checkpoint never came"
        in said(found(NameSet(), without("lm_head")))[0]
    )


def test_a_whole_mtp_part_that_is_not_sent_is_told_and_a_part_of_it_is_an_error() -> None:
    context = Context(expected=expected({**weights(), **MTP}, layers=6))
    (only,) = found(NameSet(), weights(), context)
    assert only.severity == "info"
    assert "none of the 2 multi-token prediction tensors is sent" in only.what
    some = {**weights(), **dict([next(iter(MTP.items()))])}
    assert found(NameSet(), some, context)[0].severity == "error"
    assert found(Coverage(), weights(), context) == []


def test_frozen_towers_may_stay_behind() -> None:
    tower = {"model.visual.blocks.0.attn.qkv.weight": torch.ones(4, 4)}
    context = Context(
        expected=expected({**weights(), **tower}), declared=Declared(frozen=("model.visual.*",))
    )
    assert [finding.severity for finding in found(NameSet(), weights(), context)] == ["info"]
    assert found(Coverage(), weights(), context) == []
    assert (
        found(NameSet(), weights(), Context(expected=expected({**weights(), **tower})))[0].severity == "error"
    )


def test_of_a_partial_export_nothing_is_missing() -> None:
    part = without(r"layers\.[345]\.")
    assert found(NameSet(), part, partial="3 of 6 conversion tasks") == []
    assert found(Coverage(), part, partial="3 of 6 conversion tasks") == []
    odd = {**part, "odd": torch.ones(1)}
    assert len(found(NameSet(), odd, partial="its consumer closed it early")) == 1


def test_the_last_stage_present_is_judged() -> None:
    truth = expected(weights())
    sent = summary(without("lm_head"), stage="wire")
    assert "lm_head.weight" in said(found(NameSet(), weights(), Context(expected=truth, wire=sent)))[0]
    padded = {**weights(), "odd": torch.ones(1)}
    whole = summary(weights(), stage="wire")
    assert found(NameSet(), padded, Context(expected=truth, wire=whole)) == []


def test_an_earlier_summary_gives_the_expected_names() -> None:
    earlier = Expected.from_summary(summary(weights(), version="7"))
    assert earlier.origin == "an earlier summary (version 7)"
    assert found(NameSet(), weights(seed=1), Context(expected=earlier)) == []
    assert "an earlier summary" in said(found(NameSet(), without("lm_head"), Context(expected=earlier)))[0]


def test_uniq_sees_a_name_that_two_stages_own() -> None:
    twice = tuple(name for name in weights() if "layers.0." in name)
    (finding,) = found(Unique(), weights(), Context(repeated=twice))
    assert str(finding).startswith(
        "UNIQ layer 0: 16 tensors (model.layers.0.input_layernorm.weight, …) came more than once"
    )
    (finding,) = found(Unique(), weights(), Context(conflicting=("lm_head.weight",)))
    assert "lm_head.weight was sent more than once with different bits" in finding.what


def test_cov_sees_a_stage_that_kept_its_local_numbers() -> None:
    # Both stages call their layers 0 to 2, and the bridge kept one of each.
    lines = said(found(Coverage(), without(r"layers\.[345]\.")))
    assert len(lines) == 1
    assert lines[0].startswith(
        "COV model.layers: layers 3 to 5 of 6 never came; a local number was taken for"
    )


def test_cov_sees_experts_that_kept_their_local_numbers_without_any_checkpoint() -> None:
    lines = said(found(Coverage(), without(r"layers\.1\.mlp\.experts\.[02]\."), Context()))
    assert len(lines) == 1
    assert lines[0].startswith("COV layer 1: experts 0, 2 of 4 never came")


def test_set_sees_a_base_that_is_sent_under_the_names_of_layers_with_adapters() -> None:
    beside = {n.replace("q_a_proj.", "q_a_proj.base_layer."): t for n, t in weights().items()}
    sent = summary(beside, stage="wire")
    (finding,) = found(NameSet(), beside, Context(expected=expected(weights()), wire=sent))
    assert finding.names == tuple(sorted(name for name in beside if "base_layer" in name))
    assert "take '.base_layer' out" in finding.next_step


def test_set_sees_adapters_of_stacked_experts() -> None:
    stacked = [f"model.layers.0.mlp.experts.gate_up_proj.lora_{side}.weight" for side in "AB"]
    fused = [f"model.layers.0.self_attn.q_a_proj.lora_{side}.weight" for side in "AB"]
    tensors = {**weights(), **{name: torch.ones(2, 4, 8) for name in (*stacked, *fused)}}
    (finding,) = found(NameSet(), tensors)
    assert (finding.names, finding.severity) == (tuple(stacked), "warning")
