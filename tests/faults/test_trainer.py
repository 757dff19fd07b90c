"""Faults of what the trainer holds: replicas, adapters in the base, merges, and what is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import Expected
from tests.faults.named import Named
from tests.faults.saves import split
from tests.faults.streams import judged
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

pytestmark = pytest.mark.ci


@pytest.mark.parametrize(
    ("family", "provider", "parameter"),
    [
        pytest.param("qwen3", {"mtp_num_layers": 1}, "word_embeddings.weight", marks=pytest.mark.fault(
            45, place="shard", rule="UNIQ", named="embedding.word_embeddings.weight is of other bits than on rank 0",
        )),
        pytest.param("qwen3_tied", {}, "output_layer.weight", marks=pytest.mark.fault(
            48, place="shard", rule="UNIQ", named="model.embed_tokens.weight is held with other bits than on rank 0",
        )),
    ],
)  # fmt: skip
def test_a_copy_on_another_stage_that_drifts_apart(
    ranks: Ranks, checkpoint: Checkpoint, named: Named, family: str, provider: dict[str, Any], parameter: str
) -> None:
    for said in ranks(
        "tests.faults.replicas:drifted", world=2, checkpoint=str(checkpoint(family)), topology={"pp": 2},
        provider=provider, parameter=parameter,
    ):  # fmt: skip
        assert said["equal"] == []  # two producers of one name, and no fault
        named(said["drifted"])


@pytest.fixture(scope="module")
def written_back(ranks: Ranks, checkpoint: Checkpoint) -> Any:
    [said] = ranks("tests.faults.adapters:written_back", checkpoint=str(checkpoint("qwen3")))
    return said


@pytest.fixture(scope="module")
def merged(ranks: Ranks, checkpoint: Checkpoint) -> Any:
    # Square, so that rows of the output projection can change places.
    [said] = ranks("tests.faults.adapters:merged", checkpoint=str(checkpoint("qwen3", num_attention_heads=4)))
    return said


UNLIKE = "layers 0-3: 4 tensors (o_proj) are unlike"
AS_AN_ADAPTER = "differs from the reference by a matrix of rank 4, as an adapter is"


@pytest.mark.parametrize(
    "who",
    [
        pytest.param(
            "at hand",
            marks=pytest.mark.fault(
                90,
                place="shard",
                rule="diff",
                named=f"layers 0-3: base_layer {AS_AN_ADAPTER}",
            ),
        ),
        pytest.param("wrong", marks=pytest.mark.fault(90, place="shard", rule="HASH", named=UNLIKE)),
    ],
)
def test_a_base_without_the_adapters_start(
    written_back: dict[str, list[str]], named: Named, who: str
) -> None:
    assert written_back["clean"] == []
    named(written_back[who])


@pytest.mark.parametrize(
    "who",
    [
        pytest.param(
            "at hand",
            marks=pytest.mark.fault(
                93,
                place="merge",
                rule="diff",
                named=f"layers 0-3: o_proj {AS_AN_ADAPTER}",
            ),
        ),
        pytest.param("wrong", marks=pytest.mark.fault(93, place="merge", rule="HASH", named=UNLIKE)),
    ],
)
def test_a_merge_that_no_sum_tells_from_a_right_one(merged: dict[str, Any], named: Named, who: str) -> None:
    assert merged["clean"] == []
    assert merged["sums"] < 0.5
    named(merged[who])


@pytest.mark.fault(41, place="save", rule="COV", named="model.layers: layers 3 of 4 never came")
def test_a_file_that_can_not_be_complete(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, named: Named
) -> None:
    from safetensors.torch import load_file

    split(checkpoint("qwen3"), tmp_path / "model")
    ranks("tests.faults.saves:saved", checkpoint=str(tmp_path / "model"), folder=str(tmp_path / "saved"))
    written = [
        item
        for file in sorted((tmp_path / "saved").glob("*.safetensors"))
        for item in load_file(file).items()
    ]
    assert written
    named(judged([written], Expected.from_folder(tmp_path / "model")))
