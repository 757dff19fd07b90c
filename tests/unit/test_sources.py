"""A checkpoint's headers, and files that are not what they seem."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bridge_plugins.errors import UsageError
from bridge_plugins.layout.sources import Source, read_sources


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_file({"b": torch.zeros(2, 3, dtype=torch.bfloat16)}, tmp_path / "model-1.safetensors")
    save_file({"a": torch.zeros(4), "c": torch.zeros((), dtype=torch.int8)}, tmp_path / "model-2.safetensors")
    return tmp_path


def test_every_file_is_read(folder: Path) -> None:
    assert read_sources(folder) == [
        Source("a", (4,), "float32"),
        Source("b", (2, 3), "bfloat16"),
        Source("c", (), "int8"),
    ]


def test_a_folder_without_weights_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Hugging Face checkpoint"):
        read_sources(tmp_path)


def test_a_header_that_is_no_json_is_named(folder: Path) -> None:
    file = folder / "model-1.safetensors"
    whole = bytearray(file.read_bytes())
    whole[8] = ord("x")
    file.write_bytes(whole)
    with pytest.raises(UsageError, match=r"model-1\.safetensors is no safetensors file"):
        read_sources(folder)


@pytest.mark.parametrize("keep", [4, 20, -1])
def test_a_cut_file_is_named(folder: Path, keep: int) -> None:
    file = folder / "model-2.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(UsageError, match=r"model-2\.safetensors"):
        read_sources(folder)
