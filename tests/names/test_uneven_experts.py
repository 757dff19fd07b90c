"""Fault J to the end: layers with different numbers of experts are named, loaded and exported right."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

CHECK = "tests.names.case:check"
UNEVEN = {"1": 4, "2": 2}  #: layers 0 and 3 have 8 experts
NOTHING = {"names": 0, "import": 0, "export": 0}


@pytest.fixture(scope="module")
def uneven(ranks: Ranks, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A checkpoint with `UNEVEN` experts."""
    folder = tmp_path_factory.mktemp("uneven") / "model"
    whole = str(checkpoint("qwen3_moe"))
    ranks("tests.names.uneven:make", backend=None, checkpoint=whole, folder=str(folder), experts=UNEVEN)
    return str(folder)


@pytest.mark.parametrize("grouped", [True, False], ids=["grouped", "SequentialMLP"])
def test_each_layer_counts_its_own_experts(ranks: Ranks, uneven: str, grouped: bool) -> None:
    for report in _run(ranks, uneven, grouped):
        assert report["counts"] == NOTHING, report


def test_stock_names_count_by_the_model(ranks: Ranks, uneven: str) -> None:
    reports = _run(ranks, uneven, True, stock=True, exports=False)
    assert any(report["counts"]["names"] for report in reports)
    assert any(report["counts"]["import"] for report in reports)


@pytest.mark.ci
def test_names_and_import_never_ask_the_config_but_the_export_does(ranks: Ranks, uneven: str) -> None:
    """Where no config tells a layer's count, Megatron Bridge gathers experts under numbers of other layers."""
    for report in _run(ranks, uneven, True, own_config=False):
        assert (report["counts"]["names"], report["counts"]["import"]) == (0, 0)
        assert report["export"][0].startswith("model.layers.1.mlp.experts.")


def _run(ranks: Ranks, folder: str, grouped: bool, **options: Any) -> list[dict[str, Any]]:
    return ranks(
        CHECK,
        world=4,
        checkpoint=folder,
        topology={"pp": 2, "ep": 2},
        uneven=UNEVEN,
        provider={"moe_grouped_gemm": grouped},
        **options,
    )
