"""One safetensors file: which tensor lies where, from its header alone."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint.formats import Format, named

# safetensors' words for dtypes (https://huggingface.co/docs/safetensors), and torch's.
_TORCH_NAMES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8",
    "U64": "uint64", "U32": "uint32", "U16": "uint16", "U8": "uint8", "BOOL": "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor on disk: `nbytes` bytes from byte `start` of `file` on, rows after rows."""

    name: str
    shape: tuple[int, ...]
    format: Format
    file: Path
    start: int
    nbytes: int


def read_header(file: Path) -> list[StoredTensor]:
    """The tensors of a safetensors file in the order of its bytes.

    Raises `UsageError` for a file that is cut, or no safetensors file, or holds a dtype that has no fingerprint.
    """
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            if size < 8 or length > size - 8:
                raise UsageError(
                    f"{file} is cut or no safetensors file: its header does not fit into {size} bytes"
                )
            header = json.loads(stream.read(length), object_pairs_hook=_once)
        if not isinstance(header, dict):
            raise ValueError("its header is no map of tensors")
        header.pop("__metadata__", None)
        tensors = [_stored(file, 8 + length, name, entry) for name, entry in header.items()]
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"{file} is no safetensors file: {error}") from error
    end = max((tensor.start + tensor.nbytes for tensor in tensors), default=0)
    if end > size:
        raise UsageError(f"{file} is cut: it has {size} bytes, its header promises {end}; fetch it again")
    return sorted(tensors, key=lambda tensor: tensor.start)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"its header has {next(name for name in names if names.count(name) > 1)} twice")
    return made


def _stored(file: Path, data: int, name: str, entry: Any) -> StoredTensor:
    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} lacks a dtype, a shape or data_offsets")
    shape = tuple(int(size) for size in entry["shape"])
    begin, end = entry["data_offsets"]
    if entry["dtype"] not in _TORCH_NAMES:
        raise ValueError(f"{name} is {entry['dtype']}, which has no fingerprint")
    form = named(_TORCH_NAMES[entry["dtype"]])
    if min(shape, default=0) < 0 or begin < 0 or end - begin != math.prod(shape) * form.bytes:
        raise ValueError(f"{name} is {form.name} {list(shape)} and has {end - begin} bytes")
    return StoredTensor(name, shape, form, file, data + begin, end - begin)
