"""HF → torch_dist → HF on real ranks, through the bridge and Megatron's own checkpointing: the same bytes, or a finding."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.checkpoints import paths
from bridge_plugins.topology import Topology
from tests.stacks.models import NEW_ROPE, Checkpoint
from tests.stacks.ranks import RankError, Ranks

HERE = "tests.checkpoints.test_round_trip"


def convert(fault: str = "", **job: Any) -> dict[str, Any]:
    """One rank of a conversion, with a fault between what was loaded and what is written."""
    import multiprocessing

    import msgspec

    from bridge_plugins.checkpoints import messages, raw, work

    # Megatron's writer has a process of its own, which the fork server's ranks may not start.
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]
    said: list[str] = []
    whole = raw.save

    def broken(chunks: list[Any], iteration: Path) -> None:
        for name, tensor in [pair for chunk in chunks for pair in chunk.named_parameters()]:
            if name.endswith("linear_proj.weight"):
                tensor.data.view(-1)[0] += 1
                break
        whole(chunks, iteration)

    raw.save = broken if fault else whole
    looks_finished: list[str] = []

    def say(words: str) -> None:
        said.append(words)
        if paths.is_checkpoint(Path(job["part"])):
            looks_finished.append(words)

    converted = work.work(msgspec.convert(job, messages.Job), say)
    return {**msgspec.to_builtins(converted), "said": said, "looks_finished": looks_finished}


def compared(one: str, other: str) -> list[str]:
    """The tensors that are not byte for byte the same in two HF folders."""
    import torch

    a, b = dict(_tensors(one)), dict(_tensors(other))
    assert len(a) > 30
    return [
        name
        for name in sorted(a.keys() | b.keys())
        if name not in a
        or name not in b
        or a[name].dtype != b[name].dtype
        or not torch.equal(a[name].contiguous().view(torch.uint8), b[name].contiguous().view(torch.uint8))
    ]


def _tensors(folder: str) -> Iterator[tuple[str, Any]]:
    from safetensors.torch import load_file

    for file in Path(folder).glob("*.safetensors"):
        yield from load_file(file).items()


def run(ranks: Ranks, source: Path, part: Path, hf: Path, fault: str = "", **sizes: int) -> dict[str, Any]:
    part.mkdir()
    topology = Topology(**sizes)
    job = {"source": str(source), "part": str(part), "hf": str(hf), "topology": sizes, "to_hf": source != hf}
    said: dict[str, Any] = ranks(f"{HERE}:convert", world=topology.world, fault=fault, **job)[0]
    return said


@pytest.mark.parametrize(
    ("family", "written", "read"),
    [
        ("qwen3_moe", {"tp": 2, "pp": 2, "ep": 2}, {"pp": 2, "ep": 2}),
        pytest.param("qwen3_moe", {"pp": 2, "vpp": 2}, {"ep": 4}, marks=pytest.mark.ci),
        pytest.param("qwen3_moe", {"tp": 2, "ep": 2, "etp": 2}, {"tp": 2}, marks=pytest.mark.full),
        pytest.param("deepseek_v3", {"tp": 2, "ep": 2}, {"pp": 2}, marks=pytest.mark.full),
        pytest.param("qwen3_tied", {"tp": 2, "pp": 2}, {"tp": 1}, marks=pytest.mark.ci),
        pytest.param("qwen3_vl_moe", {"tp": 2, "ep": 2}, {"pp": 2}, marks=[pytest.mark.ci, NEW_ROPE]),
    ],
)
def test_a_checkpoint_gives_the_same_bytes_back_in_any_topology(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path, family: str, written: dict[str, int], read: dict[str, int]
) -> None:  # fmt: skip
    source = checkpoint(family)
    made = run(ranks, source, tmp_path / "megatron", source, **written)
    assert (made["findings"], made["compared_with"]) == ([], str(source))
    assert [words.split()[0] for words in made["said"]] == ["loading", "saving", "reading", "comparing"]
    assert made["looks_finished"] == [], "killed there, it must not be taken for a checkpoint"
    assert paths.is_checkpoint(tmp_path / "megatron")
    # Megatron keeps a router's bias, and the bridge a vision tower, in float32.
    assert (made["wider"] > 0) == (family in ("deepseek_v3", "qwen3_vl_moe"))
    back = run(ranks, tmp_path / "megatron", tmp_path / "hf", tmp_path / "megatron" / paths.HF, **read)
    assert back["findings"] == []
    assert back["compared_with"].endswith("release.summary.json")
    assert back["digest"] == made["digest"]
    assert ranks(f"{HERE}:compared", one=str(source), other=str(tmp_path / "hf"), backend=None) == [[]]
    config, ours = (json.loads((folder / "config.json").read_bytes()) for folder in (source, tmp_path / "hf"))
    assert ours == config
    files = {path.name for path in (tmp_path / "hf").iterdir()}
    assert files == {path.name for path in source.iterdir()}


def test_what_was_written_wrong_is_found_before_it_has_a_name(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    source = checkpoint("qwen3_moe")
    made = run(ranks, source, tmp_path / "megatron", source, fault="a wrong element", tp=2, ep=2)
    assert [finding["rule"] for finding in made["findings"]] == ["HASH"]
    assert made["findings"][0]["names"] == ["model.layers.0.self_attn.o_proj.weight"]


def test_a_file_of_the_checkpoint_that_is_gone_is_an_error(
    ranks: Ranks, checkpoint: Checkpoint, tmp_path: Path
) -> None:
    source = checkpoint("qwen3_moe")
    run(ranks, source, tmp_path / "megatron", source, tp=2, ep=2)
    next((tmp_path / "megatron" / paths.RELEASE).glob("*.distcp")).unlink()
    with pytest.raises(RankError, match=r"release can't be loaded: "):
        run(ranks, tmp_path / "megatron", tmp_path / "hf", tmp_path / "megatron" / paths.HF)
