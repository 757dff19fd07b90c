"""Mixtures whose layers differ in their number of experts."""

from __future__ import annotations

import copy
import shutil
from pathlib import Path
from typing import Any


def make(checkpoint: str, folder: str, experts: dict[str, int]) -> None:
    """Copy `checkpoint` to `folder` with only the first so many experts in the layers that `experts` names."""
    from safetensors.torch import load_file, save_file

    from tests.names.adapters import expert_of

    shutil.copytree(checkpoint, folder)
    path = Path(folder) / "model.safetensors"
    kept = {}
    for name, tensor in load_file(path).items():
        count = experts.get(name.split(".")[2]) if name.startswith("model.layers.") else None
        if count is None or ".mlp." not in name:
            kept[name] = tensor
        elif ".mlp.gate." in name:
            kept[name] = tensor[:count].clone()
        elif (expert_of(name) or 0) < count:
            kept[name] = tensor
    save_file(kept, path, metadata={"format": "pt"})


def build_with(experts: dict[int, int], *, own_config: bool) -> None:
    """Let Megatron build the layers that `experts` names with so many experts, for the rest of this process.

    Each such layer has a config of its own, or the model's while that says so for a moment. Stages must be even.
    """
    from megatron.core import parallel_state
    from megatron.core.transformer.transformer_layer import TransformerLayer

    original = TransformerLayer.__init__

    def init(self: Any, config: Any, submodules: Any, layer_number: int = 1, **options: Any) -> None:
        before = parallel_state.get_pipeline_model_parallel_rank() * config.num_layers
        number = before // config.pipeline_model_parallel_size + layer_number - 1  # Megatron counts from 1
        whole = config.num_moe_experts
        used = copy.copy(config) if own_config else config
        used.num_moe_experts = experts.get(number, whole)
        original(self, used, submodules, layer_number, **options)
        config.num_moe_experts = whole

    TransformerLayer.__init__ = init
