"""A checkpoint that keeps its routers and expert biases in float32, as DeepSeek's do, with bits that bfloat16 lacks."""

from __future__ import annotations

import shutil
from pathlib import Path

WIDE = ".mlp.gate."


def make(checkpoint: Path, folder: Path) -> Path:
    """Write `folder` from `checkpoint`."""
    import torch
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint, folder)
    torch.manual_seed(1)
    tensors = load_file(folder / "model.safetensors")
    wide = {
        name: t.float() + 1e-4 * torch.rand(t.shape) if WIDE in name else t for name, t in tensors.items()
    }
    save_file(wide, folder / "model.safetensors", metadata={"format": "pt"})
    return folder
