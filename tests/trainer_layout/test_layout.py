"""Which HF boxes a rank's parameters hold, found out by the real bridge's import, and held against a real checkpoint."""

from __future__ import annotations

from typing import Any

import pytest

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
        pytest.param("deepseek_v3", {"pp": 2, "ep": 2}, {}, id="MLA, dense first layer, router bias in fp32"),
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
