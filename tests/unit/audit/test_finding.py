"""A finding says where it is, in fields too."""

from __future__ import annotations

import msgspec
import pytest

from bridge_plugins.audit import Finding

UP = "model.layers.3.mlp.experts.7.up_proj.weight"
GATE = "model.layers.3.mlp.experts.7.gate_proj.weight"


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ((), ("", None, "")),
        ((UP,), ("layer 3", 7, UP)),
        ((UP, GATE), ("layer 3", 7, "")),
        ((UP, "model.layers.3.mlp.gate.weight"), ("layer 3", None, "")),
        ((UP, "model.layers.4.mlp.experts.7.up_proj.weight"), ("", None, "")),
        (("lm_head.weight",), ("", None, "lm_head.weight")),
        (("visual.blocks.2.qkv.weight",), ("visual.blocks layer 2", None, "visual.blocks.2.qkv.weight")),
    ],
)  # fmt: skip
def test_layer_expert_and_parameter_come_from_the_names(
    names: tuple[str, ...], said: tuple[str, int | None, str]
) -> None:
    finding = Finding("SET", "somewhere", "missing", names=names)
    assert (finding.layer, finding.expert, finding.parameter) == said
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
