"""``bridge-audit diff``: what differs, how far, and what happened; exit 0, 1 or 2."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.unit.cli.command import audit, save, weights

Weights = dict[str, Tensor]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return save(tmp_path / "a", weights())


def test_equal_is_exit_0_whatever_the_files(model: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "b", dict(reversed(weights().items())), files=3)
    done = audit("diff", model, other)
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith(f"equal        {len(weights())} tensors, digest ")


def test_a_narrow_terminal_folds_no_title(model: Path) -> None:
    assert audit("diff", model, model, columns=20).out.splitlines()[1].startswith("B  a, stage hf: ")


def test_what_is_missing_unexpected_and_changed(model: Path, tmp_path: Path) -> None:
    tensors = {n: t for n, t in weights().items() if "layers.2.mlp.experts.1" not in n}
    tensors["model.extra.weight"] = torch.ones(3)
    moved = "model.layers.1.self_attn.o_proj.weight"
    tensors[moved] = (tensors[moved].float() * 1.5).bfloat16()
    done = audit("diff", model, save(tmp_path / "b", tensors), "--json")
    assert done.code == 1
    told = done.json
    assert [layer["name"] for layer in told["layers"]] == ["outside layers", "layer 1", "layer 2"]
    assert told["unexpected"] == ["model.extra.weight"]
    assert len(told["missing"]) == 3
    assert told["layers"][2]["experts"] == [1]
    [changed] = told["changed"]
    assert changed["name"] == moved
    assert changed["distance"] == pytest.approx(0.5, rel=1e-2)
    assert told["first"] == "outside layers"
    text = audit("diff", model, tmp_path / "b", "--names").out
    assert "missing      layer 2 expert 1: 3 tensors (" in text
    assert f"changed      {moved}: " in text
    assert "differ       1 changed, 3 missing, 1 unexpected, " in text


@pytest.mark.parametrize("form", ["folders", "summaries", "folder and summary"])
def test_the_cause_is_named_from_any_two_sources(model: Path, tmp_path: Path, form: str) -> None:
    exchanged = {n.replace("layers.0.", "\0").replace("layers.2.", "layers.0.").replace("\0", "layers.2."): t
                 for n, t in weights().items()}  # fmt: skip
    other = save(tmp_path / "b", exchanged)
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    audit("summary", model, "-o", a)
    audit("summary", other, "-o", b)
    sources = {"folders": (model, other), "summaries": (a, b), "folder and summary": (model, b)}[form]
    done = audit("diff", *sources)
    assert done.code == 1
    assert "cause        layers 0 and 2: are exchanged" in done.out
    assert done.out.count("cause  ") == 1
    assert "the first difference is in layer 0" in done.out


def version(tmp_path: Path, number: int, tensors: Weights) -> Path:
    import msgspec

    path = tmp_path / f"version{number}.json"
    audit("summary", save(tmp_path / f"v{number}", tensors), "-o", path)
    summary = msgspec.json.decode(path.read_bytes())
    summary["header"]["version"] = str(number)
    path.write_bytes(msgspec.json.encode(summary))
    return path


def test_nothing_changed_since_a_version(tmp_path: Path) -> None:
    third, fourth = (version(tmp_path, number, weights()) for number in (3, 4))
    done = audit("diff", third, fourth)
    assert done.code == 0
    assert "nothing changed since version 3" in done.out


def test_an_earlier_version_is_recognised(tmp_path: Path) -> None:
    old, new = weights(), weights(seed=1)
    mixed = {n: old[n] if "layers.1." in n else t for n, t in new.items()}
    paths = [version(tmp_path, number, tensors) for number, tensors in ((3, old), (4, new), (5, mixed))]
    done = audit("diff", paths[1], paths[2], "--earlier", paths[0])
    assert "cause        layer 1: 11 tensors (" in done.out
    assert "are as in version 3: nothing changed since" in done.out


def test_a_part_of_a_model_lacks_nothing(tmp_path: Path) -> None:
    import msgspec

    whole = version(tmp_path, 1, weights())
    part = version(tmp_path, 2, {n: t for n, t in weights().items() if "layers.1." in n})
    summary = msgspec.json.decode(part.read_bytes())
    summary["header"]["partial"] = "an export of some tasks"
    part.write_bytes(msgspec.json.encode(summary))
    assert audit("diff", whole, part).code == 0


def test_a_folder_of_several_ranks_summaries(tmp_path: Path, model: Path) -> None:
    import msgspec

    ranks = tmp_path / "ranks"
    audit("summary", model, "-o", ranks / "rank0.json")
    summary = msgspec.json.decode((ranks / "rank0.json").read_bytes())
    summary["header"]["rank"] = 1
    (ranks / "rank1.json").write_bytes(msgspec.json.encode({**summary, "records": {}}))
    assert audit("diff", model, ranks).code == 0


@pytest.fixture
def adapter(tmp_path: Path) -> tuple[Path, str, Tensor]:
    """A PEFT folder with an adapter of one weight, that weight's name, and what merging adds to it."""
    name = "model.layers.1.self_attn.o_proj.weight"
    first, second = torch.randn(2, 16), torch.randn(16, 2)
    module = "base_model.model." + name.removesuffix(".weight")
    folder = save(tmp_path / "adapter", {f"{module}.lora_A.weight": first, f"{module}.lora_B.weight": second})
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}')
    return folder, name, 2.0 * (second @ first)


def merged(tensors: Weights, name: str, delta: Tensor) -> Weights:
    return {**tensors, name: (tensors[name].float() + delta).bfloat16()}


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1, 2, "adapters are merged into o_proj once more than in the reference"),
        (0, 2, "adapters are merged into o_proj twice more than in the reference"),
        (1, 0, "adapters are not merged into o_proj, as they are in the reference"),
    ],
)
def test_adapters_merged_once_too_often(
    tmp_path: Path, adapter: tuple[Path, str, Tensor], before: int, after: int, said: str
) -> None:
    folder, name, delta = adapter
    versions = [weights()]
    for _ in range(2):
        versions.append(merged(versions[-1], name, delta))
    a, b = (save(tmp_path / f"v{n}", versions[n]) for n in (before, after))
    assert f"cause        layer 1: {said}" in audit("diff", a, b, "--adapter", folder).out
    other = {**versions[after], name: merged(versions[after], name, torch.randn(16, 16))[name]}
    done = audit("diff", a, save(tmp_path / "c", other), "--adapter", folder)
    assert "unlike every tensor of the reference" in done.out


def test_a_folder_without_adapters_is_one_line(model: Path) -> None:
    assert (
        "no folder of LoRA adapters in PEFT's format" in audit("diff", model, model, "--adapter", model).error
    )
