"""What is written of a stream, without a stack: files of bounded size, the source's dtypes, what is copied beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from bridge_plugins.audit.sources.hf_folder import HfFolder
from bridge_plugins.checkpoints import described, safetensors_files
from bridge_plugins.errors import UsageError
from bridge_plugins.layout.sources import Source


def test_files_are_closed_at_their_size_and_hold_the_stream_in_its_order(tmp_path: Path) -> None:
    made = {f"model.layers.{number}.weight": torch.randn(4, 8) for number in range(5)}
    buffer = torch.empty(4, 8)

    def stream() -> Iterator[tuple[str, Tensor]]:
        for name, tensor in made.items():
            yield name, buffer.copy_(tensor)  # the same storage again and again, as a bridge may

    assert safetensors_files.write(stream(), tmp_path, file_bytes=2 * 4 * 8 * 4) == 5 * 4 * 8 * 4
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors", "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
    ]  # fmt: skip
    folder = HfFolder.read(tmp_path)  # which checks the index against the files
    assert folder.tensors.keys() == made.keys()
    assert all(torch.equal(folder.tensor(name), tensor) for name, tensor in made.items())


def test_one_file_needs_no_index(tmp_path: Path) -> None:
    safetensors_files.write([("a", torch.ones(3, 2).T)], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.safetensors"]
    assert torch.equal(load_file(tmp_path / "model.safetensors")["a"], torch.ones(2, 3))


def test_a_wider_tensor_is_narrowed_only_if_that_loses_nothing() -> None:
    sources = [Source(name, (1,), "bfloat16") for name in ("same", "trained", "plain")]
    exact, lossy = torch.tensor([0.5]), torch.tensor([0.1])
    stream = [("same", exact), ("trained", lossy), ("plain", exact.bfloat16()), ("new", lossy)]
    given = dict(described.as_in_source(stream, sources))
    dtypes = {name: str(tensor.dtype).removeprefix("torch.") for name, tensor in given.items()}
    assert dtypes == {"same": "bfloat16", "trained": "float32", "plain": "bfloat16", "new": "float32"}
    assert all(torch.equal(given[name].float(), tensor.float()) for name, tensor in stream)


def test_artifacts_are_copied_without_weights_and_tensors_are_described(tmp_path: Path) -> None:
    source, copy, back = (tmp_path / name for name in ("source", "copy", "back"))
    source.mkdir()
    save_file({"w": torch.ones(2, 3).bfloat16(), "b": torch.ones(9)}, source / "model.safetensors")
    for name in ("config.json", "merges.txt", "modeling.py", "pytorch_model.bin", ".cache"):
        (source / name).write_text(name)
    safetensors_files.copy_artifacts(source, copy)
    described.describe(source, copy)
    assert {path.name for path in copy.iterdir()} == {
        "config.json",
        "merges.txt",
        "modeling.py",
        "tensors.json",
    }
    assert described.read(copy) == described.read(source) == [
        Source("b", (9,), "float32"), Source("w", (2, 3), "bfloat16"),
    ]  # fmt: skip
    assert described.main_dtype(described.read(copy)) == "float32"
    safetensors_files.copy_artifacts(copy, back)
    assert {path.name for path in back.iterdir()} == {"config.json", "merges.txt", "modeling.py"}


def test_a_damaged_description_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / described.TENSORS).write_bytes(msgspec.json.encode([{"name": 1}]))
    with pytest.raises(UsageError, match=r"tensors\.json is no list of tensors: "):
        described.read(tmp_path)
