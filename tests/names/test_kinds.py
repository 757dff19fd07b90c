"""Layers of several kinds in one model, on real ranks: dense ones in turn with mixtures; MTP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.names import kinds
from tests.stacks.models import WHOLE_DEEPSEEK, Checkpoint
from tests.stacks.ranks import Ranks

CHECK = "tests.names.case:check"
IN_TURN = {"moe_layer_freq": [int(layer not in kinds.DENSE) for layer in range(kinds.LAYERS)]}


@pytest.mark.ci
@pytest.mark.parametrize(
    ("kind", "topology", "provider"),
    [
        pytest.param("in_turn", {"pp": 2, "ep": 2}, IN_TURN, id="dense and grouped"),
        pytest.param(
            "in_turn", {"pp": 2, "vpp": 2, "ep": 2}, {**IN_TURN, "moe_grouped_gemm": False}, id="dense and single, VPP",
            marks=WHOLE_DEEPSEEK,
        ),
        pytest.param("with_mtp", {"pp": 2, "ep": 2}, {}, id="MTP", marks=WHOLE_DEEPSEEK),
    ],
)  # fmt: skip
def test_each_layer_is_named_and_filled_as_what_it_is(
    ranks: Ranks,
    checkpoint: Checkpoint,
    tmp_path: Path,
    kind: str,
    topology: dict[str, Any],
    provider: dict[str, Any],
) -> None:
    folder = str(tmp_path / "model")
    whole = str(checkpoint("deepseek_v3"))
    ranks(f"tests.names.kinds:{kind}", backend=None, checkpoint=whole, folder=folder)
    reports = ranks(CHECK, world=4, checkpoint=folder, topology=topology, provider=provider)
    assert all(report["counts"] == {"names": 0, "import": 0, "export": 0} for report in reports), reports
    if kind == "with_mtp":  # the last stage holds more than its two layers and the head
        assert reports[2]["parameters"] > reports[0]["parameters"] + 20
