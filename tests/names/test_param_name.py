"""A name as a value: what it parses to, and the laws of parsing and renumbering."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.names.param_name import WRAPPERS, ParamName

PART = st.text("abcdefghijklmnopqrstuvwxyz_0123456789", min_size=1, max_size=12).filter(
    lambda part: part not in {"module", "layers", "experts"}
)
PARTS = st.lists(PART, min_size=1, max_size=4)
NUMBER = st.integers(0, 999)


@pytest.mark.parametrize(
    ("text", "layer", "expert"),
    [
        ("embedding.word_embeddings.weight", None, None),
        ("decoder.layers.3.self_attention.linear_qkv.weight", 3, None),
        ("decoder.layers.3.mlp.experts.linear_fc1.weight12", 3, 12),
        ("decoder.layers.3.mlp.experts.linear_fc1.bias0", 3, 0),
        ("decoder.layers.3.mlp.experts.linear_fc2.to_wrap.weight3", 3, 3),
        ("decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.weight", 3, 5),
        ("decoder.layers.3.mlp.experts.local_experts.5.linear_fc1.adapter.linear_in.weight", 3, 5),
        ("decoder.layers.3.mlp.pool.experts.linear_fc1.weight1", 3, 1),
        ("mtp.layers.0.mtp_model_layer.mlp.experts.linear_fc1.weight7", 0, 7),
        ("vision_model.decoder.layers.4.mlp.linear_fc1.weight", 4, None),
        # No expert number: one tensor for all experts, a quantizer's state, a shared expert, a router.
        ("decoder.layers.3.mlp.experts.weight1", 3, None),
        ("decoder.layers.3.mlp.experts.linear_fc1.weight", 3, None),
        ("decoder.layers.3.mlp.experts.linear_fc1.weight_quantizer._amax", 3, None),
        ("decoder.layers.3.mlp.shared_experts.linear_fc1.weight", 3, None),
        ("decoder.layers.3.mlp.router.expert_bias", 3, None),
        # No layer number: "layers" must be a whole part.
        ("decoder.sublayers.0.weight", None, None),
        ("vision_model.blocks.0.weight", None, None),
        ("decoder.layers.norm.weight", None, None),
    ],
)
def test_numbers_are_found_where_they_stand(text: str, layer: int | None, expert: int | None) -> None:
    name = ParamName.parse(text)
    assert (name.layer, name.expert, str(name)) == (layer, expert, text)


def test_only_the_first_layer_number_is_the_layers() -> None:
    name = ParamName.parse("decoder.layers.1.merger_layers.1.layers.1.weight")
    assert str(name.numbered(layer=9)) == "decoder.layers.9.merger_layers.1.layers.1.weight"


@given(before=PARTS, after=PARTS, local=NUMBER, whole=NUMBER)
def test_renumbering_a_layer_changes_that_number_and_nothing_else(
    before: list[str], after: list[str], local: int, whole: int
) -> None:
    def text(number: int) -> str:
        return ".".join([*before, "layers", str(number), *after])

    name = ParamName.parse(text(local))
    assert str(name) == text(local)
    assert name.layer == local
    renumbered = name.numbered(layer=whole)
    assert str(renumbered) == text(whole)
    assert renumbered == ParamName.parse(text(whole))
    assert renumbered.numbered(layer=local) == name


@given(
    layer=NUMBER,
    local=NUMBER,
    whole=NUMBER,
    tail=st.sampled_from(["linear_fc1.weight{}", "linear_fc2.bias{}", "local_experts.{}.linear_fc1.weight"]),
)
def test_the_two_numbers_are_independent(layer: int, local: int, whole: int, tail: str) -> None:
    def text(in_layer: int, in_expert: int) -> str:
        return f"decoder.layers.{in_layer}.mlp.experts.{tail.format(in_expert)}"

    name = ParamName.parse(text(layer, local))
    assert str(name.numbered(expert=whole)) == text(layer, whole)
    assert str(name.numbered(layer=layer + 1)) == text(layer + 1, local)
    assert (
        name.numbered(layer=layer + 1).numbered(expert=whole)
        == name.numbered(expert=whole).numbered(layer=layer + 1)
        == name.numbered(layer=layer + 1, expert=whole)
    )


@given(parts=st.lists(PART | st.sampled_from(["layers", "experts", "3"]), min_size=1, max_size=8))
def test_a_name_without_wrappers_is_kept_to_the_letter(parts: list[str]) -> None:
    assert str(ParamName.parse(".".join(parts))) == ".".join(parts)


@given(wrapper=st.sampled_from(sorted(WRAPPERS)), at=st.integers(0, 5))
def test_a_wrappers_part_belongs_to_no_name(wrapper: str, at: int) -> None:
    parts = ["decoder", "layers", "3", "mlp", "router", "weight"]
    wrapped = ParamName.parse(".".join([*parts[:at], wrapper, *parts[at:]]))
    assert (
        wrapped == ParamName.parse(".".join(parts)) == ParamName.parse(".".join(["module", "module", *parts]))
    )
