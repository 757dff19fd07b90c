"""The model and its optimizer, built by Megatron Bridge's provider with the sizes of a topology."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bridge_plugins.patches import cpu
from bridge_plugins.patches.cpu.provider import adapt
from bridge_plugins.topology import Topology


@dataclass
class Trainer:
    """What one rank trains with."""

    bridge: Any  # megatron.bridge.AutoBridge
    chunks: list[Any]  # the model's chunks on this rank, each wrapped for data parallelism
    optimizer: Any  # megatron.core.optimizer.MegatronOptimizer


def build(checkpoint: Path, topology: Topology, *, learning_rate: float) -> Trainer:
    """Load `checkpoint` through the bridge into this rank's part of the model."""
    from megatron.bridge import AutoBridge
    from megatron.core.distributed import DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import Float16Module

    bridge = AutoBridge.from_hf_pretrained(str(checkpoint))
    provider = bridge.to_megatron_provider(load_weights=True)
    for field, value in topology.provider_fields().items():
        setattr(provider, field, value)
    provider.params_dtype = provider.pipeline_dtype = torch.bfloat16
    provider.bf16 = True
    if cpu.wanted():
        adapt(provider)
    provider.initialize_model_parallel(seed=1)
    provider.finalize()
    chunks = provider.provide_distributed_model(
        ddp_config=DistributedDataParallelConfig(grad_reduce_in_fp32=True),
        wrap_with_ddp=True,
        use_cpu_initialization=cpu.wanted(),
        mixed_precision_wrapper=Float16Module,
    )
    settings = OptimizerConfig(
        optimizer="adam",
        lr=learning_rate,
        weight_decay=0.0,
        clip_grad=1.0,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=False,
    )
    optimizer = get_megatron_optimizer(settings, chunks)
    config = chunks[0].config
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    return Trainer(bridge, chunks, optimizer)
