"""The model and its optimizer, built by Megatron Bridge's provider with the sizes of a topology."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from bridge_plugins.fusions import switch_off
from bridge_plugins.patches import cpu
from bridge_plugins.patches.cpu import provider as cpu_provider
from bridge_plugins.topology import Topology


@dataclass
class Trainer:
    """What one rank trains with."""

    bridge: Any  # megatron.bridge.AutoBridge
    chunks: list[Any]  # the model's chunks on this rank, each wrapped for data parallelism
    optimizer: Any  # megatron.core.optimizer.MegatronOptimizer; None if nothing is trained


def build(
    checkpoint: Path,
    topology: Topology,
    *,
    learning_rate: float,
    train: bool = True,
    fill: Callable[[list[Any]], None] | None = None,
    adapt: Callable[[list[Any]], list[Any]] | None = None,
) -> Trainer:
    """Load `checkpoint` through the bridge into this rank's part of the model.

    Args:
        checkpoint: an HF folder.
        topology: the trainer's sizes.
        learning_rate: of Adam.
        train: whether there will be optimizer steps; without them there are no gradients and no optimizer.
        fill: called with the model's chunks to give them weights, in place of the checkpoint's.
        adapt: called with the bare chunks to add to them, such as adapters.
    """
    from megatron.bridge import AutoBridge
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.transformer.module import Float16Module

    bridge = AutoBridge.from_hf_pretrained(str(checkpoint))
    provider = bridge.to_megatron_provider(load_weights=fill is None)
    for field, value in topology.provider_fields().items():
        setattr(provider, field, value)
    provider.params_dtype = provider.pipeline_dtype = torch.bfloat16
    provider.bf16 = True
    if cpu.wanted():
        cpu_provider.adapt(provider)
    else:
        # No weight depends on one, and what they need (apex, Transformer Engine) is not everywhere.
        switch_off(provider)
    if fill is not None:
        provider.perform_initialization = False
    if adapt is not None:
        provider.register_pre_wrap_hook(adapt)
    provider.initialize_model_parallel(seed=1)
    provider.finalize()
    chunks = provider.provide_distributed_model(
        ddp_config=DistributedDataParallelConfig(grad_reduce_in_fp32=True),
        wrap_with_ddp=train,
        use_cpu_initialization=cpu.wanted(),
        mixed_precision_wrapper=Float16Module,
    )
    if fill is not None:
        fill(chunks)
    # After that: the optimizer takes its fp32 copies from the weights that it finds.
    return Trainer(bridge, chunks, _optimizer(chunks, learning_rate) if train else None)


def _optimizer(chunks: list[Any], learning_rate: float) -> Any:
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer

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
    return optimizer
