"""Gradients on real ranks: norms are Megatron's own, and what is broken is named by its place in the whole model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

FAMILIES = {"attention", "norms", "router", "experts"}


def rows_of(told: Any) -> dict[tuple[str, str], dict[str, Any]]:
    fields = ("tensors", "frozen", "missing", "zero", "nonfinite", "squares")
    return {
        (row["layer"], row["family"]): dict(zip(fields, row["counts"], strict=True)) for row in told["rows"]
    }


@pytest.mark.parametrize(
    ("topology", "copies"),
    [
        pytest.param({"tp": 2, "pp": 2, "ep": 2}, 2, id="cut by TP"),
        pytest.param({"pp": 2, "ep": 2, "world": 4}, 2, id="replicas", marks=pytest.mark.ci),
    ],
)
def test_norms_are_megatrons_and_a_broken_step_is_told(
    ranks: Ranks, checkpoint: Checkpoint, topology: dict[str, int], copies: int
) -> None:
    results = ranks(
        "tests.parity.gradient_cases:two_steps", world=4, checkpoint=str(checkpoint("qwen3_moe")), topology=topology,
        poisoned="decoder.layers.3.mlp.experts.linear_fc1.weight5", cleared="decoder.layers.2.",
    )  # fmt: skip
    assert all(result == results[0] for result in results[1:])
    megatrons, ours = results[0]["norms"][0]
    assert ours == pytest.approx(megatrons, rel=1e-5)

    clean = rows_of(results[0]["clean"])
    assert results[0]["clean"]["findings"] == []
    assert {family for layer, family in clean if layer == "layer 3"} == FAMILIES
    assert {layer for layer, _ in clean} == {"outside layers", *(f"layer {n}" for n in range(4))}
    # 8 experts of two matrices each, all ranks of a stage together; a norm has a copy on each of them.
    assert clean["layer 2", "experts"]["tensors"] == 16
    assert clean["layer 2", "norms"]["tensors"] == 4 * copies
    assert all(row["squares"] > 0 for row in clean.values())

    broken = rows_of(results[0]["broken"])
    assert {at: row["nonfinite"] for at, row in broken.items() if row["nonfinite"]} == {
        ("layer 3", "experts"): 1
    }
    assert all(row["zero"] == row["tensors"] for (layer, _), row in broken.items() if layer == "layer 2")
    found = {finding["where"]: finding for finding in results[0]["broken"]["findings"]}
    assert set(found) == {"layer 3 expert 5", "layer 2"}
    assert found["layer 3 expert 5"]["ranks"] == [3]
    assert "decoder.layers.3.mlp.experts.linear_fc1.weight5" in found["layer 3 expert 5"]["what"]
    assert found["layer 3 expert 5"]["severity"] == "error"
    assert found["layer 2"]["severity"] == "warning"


def test_a_frozen_parameter_is_counted_and_a_missing_gradient_named_with_its_rank(
    ranks: Ranks, checkpoint: Checkpoint
) -> None:
    taken = "decoder.layers.1.self_attention.q_layernorm.weight"
    told = ranks(
        "tests.parity.gradient_cases:plain_backward", world=2, checkpoint=str(checkpoint("qwen3_moe")),
        frozen="decoder.layers.0.mlp.router.weight", taken=taken,
    )[0]  # fmt: skip
    rows = rows_of(told)
    assert {at: row["frozen"] for at, row in rows.items() if row["frozen"]} == {("layer 0", "router"): 2}
    assert {at: row["missing"] for at, row in rows.items() if row["missing"]} == {("layer 1", "norms"): 1}
    [finding] = told["findings"]
    assert (finding["where"], finding["ranks"], finding["severity"]) == ("layer 1 norms", [1], "warning")
    assert taken in finding["what"]
