"""Which HF boxes a rank's parameters hold, found out by the real bridge's import, and held against a real checkpoint."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

from bridge_plugins.layout.planes import Coded
from bridge_plugins.layout.probe import find_layout
from bridge_plugins.layout.sources import Source
from tests.stacks.models import NEW_ROPE, Checkpoint
from tests.stacks.ranks import Ranks
from tests.trainer_layout.cases import topology_of

CI = pytest.mark.ci
LAYOUT = "tests.trainer_layout.cases:layout"


@pytest.mark.parametrize(
    ("family", "topology", "provider"),
    [
        pytest.param("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2}, {}, id="TP2 PP2 EP2"),
        pytest.param("qwen3_moe", {"tp": 2, "etp": 2}, {}, id="ETP2", marks=CI),
        pytest.param(
            "qwen3_moe", {"pp": 2, "vpp": 2}, {"moe_grouped_gemm": False}, id="VPP, single experts", marks=CI
        ),
        pytest.param(
            "deepseek_v3", {"pp": 2, "ep": 2}, {}, id="MLA, dense first layer, router bias in fp32", marks=CI
        ),
        pytest.param("qwen3_tied", {"tp": 2, "pp": 2}, {}, id="tied embeddings on two stages", marks=CI),
        pytest.param(
            "qwen3_vl_moe", {"pp": 2, "ep": 2}, {}, id="a vision tower, packed experts", marks=[NEW_ROPE, CI]
        ),
    ],
)
def test_each_block_holds_what_the_checkpoint_has_there(
    ranks: Ranks, checkpoint: Checkpoint, family: str, topology: dict[str, Any], provider: dict[str, Any]
) -> None:
    reports = ranks(
        LAYOUT,
        world=topology_of(topology).world,
        checkpoint=str(checkpoint(family)),
        topology=topology,
        provider=provider,
    )
    for rank, report in enumerate(reports):
        assert report["restored"], rank
        assert report["blocks"] > 10
        assert not report["wrong"], rank
        assert not report["derived"], rank
        assert not report["rest"], rank
    assert sorted({name for report in reports for name in report["sources"]}) == reports[0]["all"]


def test_a_model_wrapped_for_training_has_the_same_layout(ranks: Ranks, checkpoint: Checkpoint) -> None:
    for report in ranks(LAYOUT, world=2, checkpoint=str(checkpoint("qwen3")), topology={"tp": 2}, ddp=True):
        assert report["restored"]
        assert not report["wrong"]
        assert not report["derived"]
        assert not report["rest"]


@CI
def test_adapters_are_left_alone_and_said(ranks: Ranks, checkpoint: Checkpoint) -> None:
    modules = ["linear_qkv", "linear_fc2"]
    for report in ranks(
        LAYOUT, world=2, checkpoint=str(checkpoint("qwen3_moe")), topology={"ep": 2}, lora=modules
    ):
        assert report["restored"]
        assert not report["wrong"]
        assert report["derived"]
        for path, reason in report["derived"].items():
            assert ".adapter." in path
            assert reason == "the import writes nothing to it, as to an adapter"
        assert set(report["rest"]) == set(report["derived"])


def test_padding_of_the_vocabulary_is_no_hole(ranks: Ranks, checkpoint: Checkpoint) -> None:
    reports = ranks(
        LAYOUT, world=2, checkpoint=str(checkpoint("qwen3")), topology={"tp": 2},
        provider={"make_vocab_size_divisible_by": 300, "should_pad_vocab": True},
    )  # fmt: skip
    assert not any(report["derived"] or report["wrong"] or not report["restored"] for report in reports)
    padded = (600 - 512) * 64
    assert [sorted(report["rest"].values()) for report in reports] == [[], [padded, padded]]


def test_what_the_import_computes_is_not_compared_and_says_why(ranks: Ranks, checkpoint: Checkpoint) -> None:
    (report,) = ranks(LAYOUT, checkpoint=str(checkpoint("qwen3")), topology={}, fault="norms less one")
    assert report["restored"]
    assert not report["wrong"]
    assert len(report["derived"]) == 4
    for path, reason in report["derived"].items():
        assert path.endswith("q_layernorm.weight")
        assert "computed by the loader, not copied" in reason


def test_a_parameter_that_computes_its_elements_is_taken_apart() -> None:
    """As Transformer Engine's fp8 parameters are: what such a tensor holds is saved, restored, and not compared."""
    held = TwoTensor(
        torch.randint(0, 99, (4, 8), dtype=torch.uint8), torch.randint(0, 99, (4, 8), dtype=torch.uint8)
    )
    model = torch.nn.Linear(8, 4, bias=True).to(torch.bfloat16)
    model.weight = torch.nn.Parameter(held, requires_grad=False)
    before, inside = model.bias.detach().clone(), held.a.clone()

    def load(weights: Coded) -> None:
        model.weight.copy_((weights["weight"].float() * 1e4).to(torch.uint8))
        model.bias.copy_(weights["bias"])

    sources = [Source("bias", (4,), "bfloat16"), Source("weight", (4, 8), "bfloat16")]
    layout = find_layout(model, load, sources)
    assert [block.path for block in layout.blocks] == ["bias"]
    assert set(layout.derived) == {"weight.a", "weight.b"}
    assert torch.equal(model.bias, before)
    assert torch.equal(model.weight.a, inside)
