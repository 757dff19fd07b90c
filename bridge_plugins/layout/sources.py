"""The HF tensors of a model, by name: what a checkpoint's headers say, without reading a weight."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge_plugins.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

# safetensors' words for dtypes (https://huggingface.co/docs/safetensors), and torch's.
_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """An HF tensor: its name, its whole shape, and its dtype as torch spells it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def read_sources(folder: str | Path) -> list[Source]:
    """Every tensor of the safetensors files in an HF folder, by name, from the files' headers alone.

    Raises `UsageError` for a folder without such files, and for a file that is cut or no safetensors file.
    """
    sources: dict[str, Source] = {}
    for file in weight_files(folder):
        for name, entry in _header(file).items():
            dtype = _TORCH_NAMES.get(entry["dtype"], entry["dtype"])
            sources[name] = Source(name, tuple(entry["shape"]), dtype)
    return [sources[name] for name in sorted(sources)]


def weight_files(folder: str | Path) -> list[Path]:
    """The safetensors files of an HF folder: those that its index names, if it has one.

    Raises `UsageError` if there are none.
    """
    index = Path(folder) / "model.safetensors.index.json"
    try:
        named = set(json.loads(index.read_bytes())["weight_map"].values())
    except (FileNotFoundError, NotADirectoryError):
        named = set()
    except (ValueError, KeyError, AttributeError) as error:
        raise UsageError(f"{index} is no index of a checkpoint ({type(error).__name__}: {error})") from error
    files = sorted(Path(folder).glob("*.safetensors"))
    # Some folders hold the same weights once more, in their maker's own format.
    chosen = [file for file in files if file.name in named] or files
    if not chosen:
        raise UsageError(f"no *.safetensors in {folder}: name a folder with a Hugging Face checkpoint")
    return chosen


def read_weights(folder: str | Path) -> Iterator[tuple[str, Tensor]]:
    """``(HF name, tensor)`` of every tensor in an HF folder, on the CPU, one at a time."""
    from safetensors import safe_open

    for file in weight_files(folder):
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118 (it is no dict)
                yield name, stored.get_tensor(name)


def _header(file: Path) -> dict[str, dict[str, Any]]:
    size = file.stat().st_size
    with file.open("rb") as stream:
        start = stream.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else size
        if length > size - 8:
            raise UsageError(
                f"{file} is cut or no safetensors file: its header does not fit into {size} bytes"
            )
        try:
            header: dict[str, dict[str, Any]] = json.loads(stream.read(length))
        except ValueError as error:
            raise UsageError(f"{file} is no safetensors file: its header is no JSON ({error})") from error
    header.pop("__metadata__", None)
    end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if end > size:
        raise UsageError(f"{file} is cut: {size} bytes, its header promises {end}")
    return header
