"""This rank's part of a model, built through the bridge for its weights alone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bridge_plugins.checkpoints import described
from bridge_plugins.errors import UsageError
from bridge_plugins.fusions import switch_off
from bridge_plugins.patches import cpu
from bridge_plugins.patches.cpu.provider import adapt
from bridge_plugins.topology import Topology


@dataclass
class Model:
    """One rank's bridge and model chunks (one per virtual stage)."""

    bridge: Any  # megatron.bridge.AutoBridge
    chunks: list[Any]  # megatron.core.transformer.MegatronModule


def build(folder: Path, topology: Topology, *, weights: bool) -> Model:
    """Build the model of an HF folder. Every rank must call it: Megatron makes its process groups here.

    Args:
        folder: with config and either weights or their description: the bridge asks it for the names to export.
        weights: whether to load the folder's weights through the bridge. Without them, they are whatever memory held.

    Raises `UsageError` for a model that the bridge doesn't know.
    """
    from megatron.bridge import AutoBridge

    try:
        bridge = AutoBridge.from_hf_pretrained(str(folder))
    except (OSError, ValueError, NotImplementedError) as error:
        raise UsageError(f"Megatron Bridge can't convert {folder}: {str(error).splitlines()[0]}") from error
    sources = described.read(folder)
    described.as_described(bridge, folder, sources)
    provider = bridge.to_megatron_provider(load_weights=weights)
    for field, value in topology.provider_fields().items():
        setattr(provider, field, value)
    _hold_as(provider, described.main_dtype(sources))
    adapt(provider) if cpu.wanted() else switch_off(provider)
    provider.perform_initialization = False
    provider.initialize_model_parallel(seed=1)
    provider.finalize()
    chunks = provider.provide_distributed_model(
        wrap_with_ddp=False,
        use_cpu_initialization=cpu.wanted(),
        # It would turn buffers that are float32 (a router's bias) into the parameters' dtype.
        mixed_precision_wrapper=None,
    )
    return Model(bridge, chunks)


def _hold_as(provider: Any, dtype: str) -> None:
    """Hold parameters as the folder has them; a config may not say how that is, or say it in one of its parts only."""
    import torch

    if dtype not in ("bfloat16", "float16", "float32"):
        raise UsageError(
            f"a checkpoint holds bfloat16, float16 or float32; most of this folder's weights are {dtype}"
        )
    provider.params_dtype = provider.pipeline_dtype = provider.autocast_dtype = getattr(torch, dtype)
    provider.bf16, provider.fp16 = dtype == "bfloat16", dtype == "float16"
