"""Other versions of a checkpoint's weights: every tensor differs, by a factor that bfloat16 keeps exactly."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor


def version(folder: Path, number: int) -> dict[str, Tensor]:
    """The checkpoint in `folder` times 2^number: 0 is the checkpoint itself."""
    return {name: tensor * 2.0**number for name, tensor in load_file(folder / "model.safetensors").items()}
