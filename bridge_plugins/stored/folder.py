"""A Hugging Face folder: its index, and the headers of its safetensors files, checked against each other."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bridge_plugins.errors import UsageError
from bridge_plugins.stored.header import StoredTensor, read_header

INDEX = "model.safetensors.index.json"
_NUMBERED = re.compile(r"^(.+)-(\d+)-of-(\d+)\.safetensors$")


def read_folder(path: Path) -> dict[str, StoredTensor]:
    """Every tensor of a folder's safetensors files by name, in the order in which they lie on disk.

    Raises `UsageError` if the folder holds none, or if index and files don't make one whole checkpoint.
    """
    listed = read_index(path)
    tensors: dict[str, StoredTensor] = {}
    for file in weight_files(path, listed):
        for tensor in read_header(file):
            if other := tensors.get(tensor.name):
                raise UsageError(
                    f"{path}: {tensor.name} is in {other.file.name} and in {file.name}; keep one"
                )
            tensors[tensor.name] = tensor
    if listed and (odd := sorted(listed.keys() ^ tensors.keys())):
        where = "the index but in no file" if odd[0] in listed else "a file but not in the index"
        raise UsageError(
            f"{path}: {odd[0]} is in {where} ({len(odd)} such names): is it another model's index?"
        )
    if not tensors:
        raise UsageError(
            f"{path} has no tensor in its *.safetensors: name a folder with a Hugging Face checkpoint"
        )
    return tensors


def read_index(path: Path) -> dict[str, str]:
    """The file of each tensor, as the folder's index says it; empty without one. Raises `UsageError` if it is none."""
    file = path / INDEX
    if not file.is_file():
        return {}
    try:
        index = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"{file} is no index: {error}; fetch it again") from error
    listed = index.get("weight_map") if isinstance(index, dict) else None
    if not (listed and isinstance(listed, dict) and all(isinstance(name, str) for name in listed.values())):
        raise UsageError(f"{file} is no index: its weight_map is no map of tensors to files; fetch it again")
    if odd := next((name for pair in listed.items() for name in pair if not name.isprintable()), None):
        raise UsageError(
            f"{file} is no index: it has {odd!r}, with characters that can't be printed; give it another name"
        )
    return listed


def weight_files(path: Path, listed: dict[str, str]) -> list[Path]:
    """The safetensors files of a folder: those that its index lists, if it has one; else all.

    Raises `UsageError` if there are none, or if one of them is not there.
    """
    files = sorted(path.glob("*.safetensors"))
    if listed:
        # Names out of a file are compared with what lies in the folder, and never opened. What else lies there is no
        # part of the model: some folders hold the same weights once more, in their maker's own format.
        named = set(listed.values())
        if absent := sorted(named - {file.name for file in files}):
            raise UsageError(
                f"{path}: its index names {_some(absent)}, which {'are' if len(absent) > 1 else 'is'} not there; "
                "fetch the folder again"
            )
        return [file for file in files if file.name in named]
    if not files:
        raise UsageError(f"no *.safetensors in {path}: name a folder with a Hugging Face checkpoint")
    _all_numbers(path, files)
    return files


def _all_numbers(path: Path, files: list[Path]) -> None:
    """Without an index, files that count themselves must all be there."""
    counted = [match for file in files if (match := _NUMBERED.match(file.name))]
    for stem, total in {(match[1], match[3]) for match in counted}:
        have = {int(match[2]) for match in counted if (match[1], match[3]) == (stem, total)}
        absent = next((number for number in range(1, int(total) + 1) if number not in have), None)
        if absent is not None:
            raise UsageError(
                f"{path}: {stem}-{absent:0{len(total)}}-of-{total}.safetensors is not there; fetch the folder again"
            )


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
