"""What is no wrong weight: the audit finds nothing, and says no more than that the trainer's side is consistent."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from bridge_plugins.audit import Expected, WeightAudit
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.layout.sources import Source
from tests.faults.conftest import Audited, Recorded
from tests.faults.named import Named
from tests.faults.streams import judged

pytestmark = pytest.mark.ci


@pytest.mark.parametrize(
    ("cell", "broken"),
    [
        pytest.param("EP2 SequentialMLP", "a setting", marks=pytest.mark.fault(114, place="kernel", rule="", named="")),
        pytest.param("EP2", "a setting", marks=pytest.mark.fault(115, place="kernel", rule="", named="")),
        pytest.param("PP2 EP2", "a setting", marks=pytest.mark.fault(116, place="data", rule="", named="")),
        pytest.param("TP2", "no environment", marks=pytest.mark.fault(117, place="data", rule="", named="")),
    ],
)  # fmt: skip
def test_a_gap_that_is_not_in_the_weights(audited: Audited, named: Named, cell: str, broken: str) -> None:
    named(audited(cell, broken))


@pytest.mark.fault(50, place="stream", rule="", named="")
def test_a_tied_model_whose_index_lists_an_output_layer(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    tied = expected("qwen3_tied")
    assert tied.tied
    listed = {**tied.sources, "lm_head.weight": Source("lm_head.weight", (512, 64), "bfloat16")}
    stream = [item for item in recorded("qwen3_tied") if item[0] != "lm_head.weight"]
    named(judged([stream], dataclasses.replace(tied, sources=listed)))


@pytest.mark.fault(113, place="stream", rule="", named="")
def test_a_derived_buffer_of_another_shape(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    import torch

    name = "model.layers.0.self_attn.rotary_emb.cos_sin_cache"
    of_checkpoint = expected("qwen3")
    sources = {**of_checkpoint.sources, name: Source(name, (256, 16), "float32")}
    stream = [*recorded("qwen3"), (name, torch.rand(4096, 16))]
    named(judged([stream], dataclasses.replace(of_checkpoint, sources=sources)))


@pytest.mark.fault(75, 76, 103, place="engine's memory", rule="", named="VERDICT trainer side consistent")
def test_what_the_trainer_cannot_know_is_not_said_to_be_verified(
    recorded: Recorded, expected: Callable[[str], Expected], named: Named
) -> None:
    audit = WeightAudit("tiny", expected=expected("qwen3"))
    for _ in audit.watch(recorded("qwen3")):
        pass
    summary, findings = audit.finish("1")
    verdict = Verdict.of(summary, findings, engines=0, mismatched=0, not_compared=0)
    assert verdict.exit_status == 1  # only a readback makes it 0
    named([str(verdict)])
