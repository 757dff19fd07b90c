"""A checkpoint's headers, and files that are not what they seem."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.sources.hf_folder import HfFolder
from bridge_plugins.engines.sglang.transports.from_disk import stored
from bridge_plugins.errors import UsageError
from bridge_plugins.layout.sources import Source, read_sources
from bridge_plugins.names.preflight.source import of_files


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


def test_a_file_that_the_index_does_not_name_is_no_part_of_the_model(folder: Path) -> None:
    """As for Hugging Face's loader and the engine's: some folders hold the weights once more, in their maker's format."""
    files = {"a": "model-2.safetensors", "b": "model-1.safetensors", "c": "model-2.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    extra = {"a": torch.ones(4), "tok_embeddings.weight": torch.ones(3)}
    save_file(extra, folder / "consolidated.safetensors")
    expected = Expected.from_folder(folder)
    assert expected.sources.keys() == expected.records.keys() == set("abc")
    assert expected.records == HfFolder.read(folder).summary().records
    assert expected.records["a"].absmax == 0
    assert {name: float(tensor.sum()) for name, tensor in stored(folder)} == {"a": 0, "b": 0, "c": 0}


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


def entry(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(file: Path, header: str, data: int = 8) -> None:
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(data))


LIES = {
    "x lacks a dtype": {"x": {"dtype": "F32"}},
    "x is 'X9', which is no dtype": {"x": entry("X9", [8], 0, 8)},
    r"x is float32 \[3\] and has 8 bytes": {"x": entry("F32", [3], 0, 8)},
    "x is F4": {"x": entry("F4", [8], 0, 8)},
    r"data_offsets \[-8, 0\], which are none": {"x": entry("F32", [2], -8, 0)},
    "data_offsets 8, which are none": {"x": {**entry("F32", [2], 0, 8), "data_offsets": 8}},
    r"x is '\\x1b', which is no dtype": {"x": entry("\x1b", [8], 0, 8)},
    r"the shape '\\x1b'": {"x": {**entry("F32", [2], 0, 8), "shape": "\x1b"}},
    r"shape \[2.0\]": {"x": entry("F32", [2.0], 0, 8)},  # type: ignore[list-item]
    "y lies in the tensor before it": {"x": entry("F32", [1], 0, 4), "y": entry("F16", [3], 2, 8)},
    "y does not follow the tensor before it": {"x": entry("U8", [2], 0, 2), "y": entry("F32", [1], 4, 8)},
    "4 more than its header says": {"x": entry("F32", [1], 0, 4)},
    "is cut: it has": {"x": entry("F32", [4], 0, 16)},
    "its header is no map of tensors": [],
}


@pytest.mark.parametrize("said", LIES)
@pytest.mark.parametrize("read", [read_sources, HfFolder.read, of_files])
def test_a_header_that_lies_is_refused_as_safetensors_itself_does(
    tmp_path: Path, said: str, read: Callable[[Path], object]
) -> None:
    file = tmp_path / "model.safetensors"
    write(file, json.dumps(LIES[said]))
    with pytest.raises(SafetensorError), safe_open(file, framework="pt"):
        pass
    with pytest.raises(UsageError, match=said) as raised:
        read(tmp_path)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("read", [read_sources, HfFolder.read, of_files])
def test_a_name_twice_in_a_header(tmp_path: Path, read: Callable[[Path], object]) -> None:
    both = [f'"x": {json.dumps(entry("F32", [1], at, at + 4))}' for at in (0, 4)]
    write(tmp_path / "model.safetensors", "{" + ", ".join(both) + "}")
    with pytest.raises(UsageError, match="its header has 'x' twice"):
        read(tmp_path)


def test_every_dtype_of_safetensors_has_a_shape(tmp_path: Path) -> None:
    tensors = {
        "four": entry("F4", [2, 4], 0, 4), "six": entry("F6_E2M3", [4], 4, 7),
        "complex": entry("C64", [1], 7, 15), "none": entry("F32", [0, 3], 15, 15),
    }  # fmt: skip
    write(tmp_path / "model.safetensors", json.dumps(tensors), data=15)
    assert {source.name: (source.shape, source.dtype) for source in read_sources(tmp_path)} == {
        "four": ((2, 4), "F4"), "six": ((4,), "F6_E2M3"), "complex": ((1,), "complex64"), "none": ((0, 3), "float32"),
    }  # fmt: skip
    with pytest.raises(UsageError, match="four is F4, which has no fingerprint"):
        HfFolder.read(tmp_path)
