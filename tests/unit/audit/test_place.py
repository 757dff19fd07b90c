from __future__ import annotations

import pytest

from bridge_plugins.audit.place import OUTSIDE, Place, place_of


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("model.embed_tokens.weight", Place(OUTSIDE, "model.embed_tokens.weight")),
        ("model.layers.3.mlp.gate.weight", Place("model.layers.3", "mlp.gate.weight", 3)),
        (
            "model.layers.12.mlp.experts.7.up_proj.weight",
            Place("model.layers.12", "mlp.experts.7.up_proj.weight", 12, 7),
        ),
        ("model.layers.1.mlp.experts.gate_up_proj", Place("model.layers.1", "mlp.experts.gate_up_proj", 1)),
        (
            "model.language_model.layers.0.merger_layers.5.weight",
            Place("model.language_model.layers.0", "merger_layers.5.weight", 0),
        ),
        ("model.visual.blocks.2.attn.qkv.weight", Place("model.visual.blocks.2", "attn.qkv.weight", 2)),
    ],
)
def test_place_of(name: str, place: Place) -> None:
    assert place_of(name) == place


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("model.layers.3.x", "layer 3"),
        ("model.language_model.layers.3.x", "layer 3"),
        ("model.visual.blocks.3.x", "visual.blocks layer 3"),
    ],
)
def test_layers_of_different_stacks_have_different_names(name: str, said: str) -> None:
    assert place_of(name).layer_name == said


def test_model_order_is_by_number() -> None:
    names = [f"model.layers.{n}.x" for n in (10, 2, 0)] + ["lm_head.weight"]
    assert sorted(names, key=lambda n: place_of(n).sort_key)[0] == "lm_head.weight"
    assert sorted(names, key=lambda n: place_of(n).sort_key)[-1] == "model.layers.10.x"
