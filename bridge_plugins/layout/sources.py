"""The HF tensors of a model, by name: what a checkpoint's headers say, without reading a weight."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge_plugins.stored.folder import read_folder, read_index, weight_files

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Source:
    """An HF tensor: its name, its whole shape, and its dtype as torch spells it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


def read_sources(folder: str | Path) -> list[Source]:
    """Every tensor of the safetensors files in an HF folder, by name, from the files' headers alone.

    Raises `UsageError` for a folder that is no whole checkpoint.
    """
    stored = read_folder(Path(folder))
    return [Source(name, stored[name].shape, stored[name].dtype) for name in sorted(stored)]


def read_weights(folder: str | Path) -> Iterator[tuple[str, Tensor]]:
    """``(HF name, tensor)`` of every tensor in an HF folder, on the CPU, one at a time.

    Raises `UsageError` for a folder without safetensors files, or without one that its index names.
    """
    from safetensors import safe_open

    for file in weight_files(Path(folder), read_index(Path(folder))):
        with safe_open(file, framework="pt") as stored:
            for name in stored.keys():  # noqa: SIM118 (it is no dict)
                yield name, stored.get_tensor(name)
