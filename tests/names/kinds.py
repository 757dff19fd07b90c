"""DeepSeek checkpoints with other kinds of layers: dense ones in turn with mixtures, and one that predicts ahead (MTP)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

DENSE = (0, 2)  #: of `in_turn`; its provider is told the same in `moe_layer_freq`
LAYERS = 4


def in_turn(checkpoint: str, folder: str) -> None:
    """Copy `checkpoint` to `folder` with an MLP like layer 0's in the place of every mixture of `DENSE`."""
    tensors = _copied(checkpoint, folder)
    for layer in DENSE[1:]:
        for name in [name for name in tensors if name.startswith(f"model.layers.{layer}.mlp.")]:
            del tensors[name]
        _add_like(tensors, "model.layers.0.mlp.", f"model.layers.{layer}.mlp.")
    _save(tensors, folder)


def with_mtp(checkpoint: str, folder: str) -> None:
    """Copy `checkpoint` to `folder` with a layer that predicts one token ahead, where DeepSeek has it: after the last."""
    import torch

    tensors = _copied(checkpoint, folder)
    _add_like(tensors, f"model.layers.{LAYERS - 1}.", f"model.layers.{LAYERS}.")
    [hidden] = tensors["model.norm.weight"].shape
    for name, shape in (
        ("enorm", [hidden]), ("hnorm", [hidden]), ("eh_proj", [hidden, 2 * hidden]), ("shared_head.norm", [hidden]),
    ):  # fmt: skip
        tensors[f"model.layers.{LAYERS}.{name}.weight"] = torch.randn(shape).bfloat16()
    _save(tensors, folder)
    config = Path(folder) / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "num_nextn_predict_layers": 1}))


def _copied(checkpoint: str, folder: str) -> dict[str, Any]:
    from safetensors.torch import load_file

    shutil.copytree(checkpoint, folder)
    return dict(load_file(f"{folder}/model.safetensors"))


def _add_like(tensors: dict[str, Any], there: str, here: str) -> None:
    """Random tensors of the same shapes under `here` as there are under `there`."""
    import torch

    for name, tensor in list(tensors.items()):
        if name.startswith(there):
            tensors[here + name.removeprefix(there)] = torch.randn(tensor.shape).to(tensor.dtype)


def _save(tensors: dict[str, Any], folder: str) -> None:
    from safetensors.torch import save_file

    save_file(tensors, f"{folder}/model.safetensors", metadata={"format": "pt"})
