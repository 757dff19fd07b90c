"""A stream of HF tensors written to safetensors files of bounded size, with their index."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from bridge_plugins.checkpoints.described import TENSORS

if TYPE_CHECKING:
    from torch import Tensor

FILE_BYTES = 5_000_000_000
INDEX = "model.safetensors.index.json"


def write(stream: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = FILE_BYTES) -> int:
    """Write all of `stream` into `folder`; the number of bytes. Holds no more than one file's tensors."""
    from safetensors.torch import save_file

    groups: list[list[str]] = []
    held: dict[str, Tensor] = {}
    size = total = 0

    def close() -> None:
        save_file(held, folder / _part(len(groups)), metadata={"format": "pt"})
        groups.append(list(held))
        held.clear()

    for name, tensor in stream:
        if held and size + tensor.nbytes > file_bytes:
            close()
            size = 0
        # A copy of its own storage: the stream's buffers may be used again, and safetensors wants no views.
        held[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size, total = size + tensor.nbytes, total + tensor.nbytes
    close()
    index: dict[str, str] = {}
    for number, names in enumerate(groups):
        file = (
            "model.safetensors"
            if len(groups) == 1
            else f"model-{number + 1:05d}-of-{len(groups):05d}.safetensors"
        )
        (folder / _part(number)).rename(folder / file)
        index |= dict.fromkeys(names, file)
    if len(groups) > 1:
        listed = {"metadata": {"total_size": total}, "weight_map": index}
        (folder / INDEX).write_text(json.dumps(listed, indent=2))
    return total


def copy_artifacts(source: Path, folder: Path) -> None:
    """Copy config, tokenizer and what else of an HF folder is neither weights nor their index."""
    folder.mkdir(exist_ok=True)
    weights = (".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".gguf", ".index.json", TENSORS)
    for file in sorted(source.iterdir()):
        if file.is_file() and not file.name.startswith(".") and not file.name.endswith(weights):
            shutil.copy(file, folder / file.name)


def _part(number: int) -> str:
    return f"{number:05d}.part"
