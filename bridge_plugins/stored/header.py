"""One safetensors file: which tensor lies where, from its header alone.

As strict as the format (https://huggingface.co/docs/safetensors): tensors lie one after another and fill the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bridge_plugins.errors import UsageError

#: safetensors' words for dtypes with torch's, where torch has one, and the bits of an element.
_DTYPES: Final = {
    "F64": ("float64", 64), "F32": ("float32", 32), "F16": ("float16", 16), "BF16": ("bfloat16", 16),
    "F8_E4M3": ("float8_e4m3fn", 8), "F8_E5M2": ("float8_e5m2", 8), "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8), "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "F6_E2M3": ("F6_E2M3", 6), "F6_E3M2": ("F6_E3M2", 6), "F4": ("F4", 4), "C64": ("complex64", 64),
    "I64": ("int64", 64), "I32": ("int32", 32), "I16": ("int16", 16), "I8": ("int8", 8),
    "U64": ("uint64", 64), "U32": ("uint32", 32), "U16": ("uint16", 16), "U8": ("uint8", 8), "BOOL": ("bool", 8),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor on disk: `nbytes` bytes from byte `start` of `file` on, rows after rows.

    `dtype` is torch's name for it, or safetensors' own (``F4``) where torch has none.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    file: Path
    start: int
    nbytes: int


def read_header(file: Path) -> list[StoredTensor]:
    """The tensors of a safetensors file in the order of its bytes.

    Raises `UsageError` for a file that is cut, or no safetensors file, or has a name that can't be printed.
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
        tensors.sort(key=lambda tensor: (tensor.start, tensor.nbytes))
        end = _one_after_another(tensors, 8 + length)
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{file} is no safetensors file: {error}") from error
    if end > size:
        raise UsageError(f"{file} is cut: it has {size} bytes, its header promises {end}; fetch it again")
    if end < size:
        raise UsageError(f"{file} has {size} bytes, {size - end} more than its header says; fetch it again")
    return tensors


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"its header has {next(name for name in names if names.count(name) > 1)!r} twice")
    return made


def _stored(file: Path, data: int, name: str, entry: Any) -> StoredTensor:
    if not name.isprintable():  # a terminal would obey it
        raise ValueError(
            f"it names a tensor {name!r}, with characters that can't be printed; give it another name"
        )
    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name} lacks a dtype, a shape or data_offsets")
    if not (isinstance(entry["dtype"], str) and entry["dtype"] in _DTYPES):
        raise ValueError(f"{name} is {entry['dtype']!r}, which is no dtype of safetensors")
    dtype, bits = _DTYPES[entry["dtype"]]
    shape, offsets = entry["shape"], entry["data_offsets"]
    if not (_are_counts(shape) and _are_counts(offsets) and len(offsets) == 2):
        raise ValueError(f"{name} has the shape {shape!r} and the data_offsets {offsets!r}, which are none")
    begin, end = offsets
    if 8 * (end - begin) != math.prod(shape) * bits:
        raise ValueError(f"{name} is {dtype} {shape} and has {end - begin} bytes")
    return StoredTensor(name, tuple(shape), dtype, file, data + begin, end - begin)


def _are_counts(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and value >= 0 for value in values)


def _one_after_another(tensors: Iterable[StoredTensor], at: int) -> int:
    """Where the last tensor ends. Raises ValueError if two lie in each other, or bytes lie between them."""
    for tensor in tensors:
        if tensor.start != at:
            what = (
                "lies in the tensor before it"
                if tensor.start < at
                else "does not follow the tensor before it"
            )
            raise ValueError(f"{tensor.name} {what}: it begins at byte {tensor.start}, not at {at}")
        at += tensor.nbytes
    return at
