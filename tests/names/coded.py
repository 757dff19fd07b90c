"""Checkpoints whose every tensor spells its own number: what a rank holds can be read off its parameters."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

FIRST_CODE = 0x0080  #: the first bf16 bit pattern that is a normal number; 0 means never written


def make(checkpoint: str, folder: str) -> None:
    """Copy `checkpoint` to `folder` with each tensor's elements all the code of that tensor."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint, folder)
    path = Path(folder) / "model.safetensors"
    tensors = load_file(path)
    codes = {
        name: torch.full(tensors[name].shape, FIRST_CODE + index, dtype=torch.int16).view(torch.bfloat16)
        for index, name in enumerate(sorted(tensors))
    }
    save_file(codes, path, metadata={"format": "pt"})


def sources(parameter: Any, names: list[str]) -> set[str]:
    """The HF tensors of which `parameter` holds a part; ``?`` for what no tensor was written to.

    Padding of a vocabulary is 0 or a copy of a row; zeros count as never written.
    """
    import torch

    values = parameter.detach().to(torch.bfloat16).view(torch.int16).unique().tolist()
    return {names[value - FIRST_CODE] if 0 <= value - FIRST_CODE < len(names) else "?" for value in values}
