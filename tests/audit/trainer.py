"""A model that is really trained: Megatron's data parallel wrapper, its optimizer and its pipeline schedule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge_plugins.fusions import FUSIONS
from bridge_plugins.topology import Topology

LENGTH = 32  # tokens of one sequence
BATCH = 2  # sequences of one microbatch


@dataclass
class Trainer:
    """What one rank trains with."""

    bridge: Any
    chunks: list[Any]
    optimizer: Any

    def export(self) -> list[tuple[str, Any]]:
        """What the bridge yields on this rank."""
        return list(self.bridge.export_hf_weights(self.chunks, cpu=True, show_progress=False))


def build(
    checkpoint: str, topology: Topology, *, learning_rate: float, kind: str = "", **fields: Any
) -> Trainer:
    """Load `checkpoint` into this rank's part of the model, and give it an optimizer.

    `kind` is "lora" (adapters on the attention), "frozen" (no MLP's second matrix trains), "fp32_router" (computes in
    float32), "fp32_held" (and its weights are float32 from the first step on), or something else, which changes nothing.
    """
    import torch
    from megatron.bridge import AutoBridge
    from megatron.bridge.peft.lora import LoRA
    from megatron.core.distributed import DistributedDataParallelConfig, finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.transformer.module import Float16Module

    bridge = AutoBridge.from_hf_pretrained(checkpoint)
    provider = bridge.to_megatron_provider(load_weights=True)
    settings: dict[str, Any] = {
        **topology.provider_fields(),
        **dict.fromkeys(FUSIONS, False),
        "use_cpu_initialization": True,
        "bf16": True,
        "params_dtype": torch.bfloat16,
        "pipeline_dtype": torch.bfloat16,
        **({"overlap_p2p_comm": True, "batch_p2p_comm": False} if topology.vpp > 1 else {}),
        **({"moe_router_dtype": "fp32"} if kind.startswith("fp32_") else {}),
        **fields,
    }
    for name, value in settings.items():
        if hasattr(provider, name):
            setattr(provider, name, value)
    provider.initialize_model_parallel(seed=1234)
    provider.finalize()
    if kind == "lora":
        lora = LoRA(target_modules=["linear_qkv", "linear_proj"], dim=4, alpha=8)
        provider.register_pre_wrap_hook(lambda chunks: lora(chunks, training=True) or chunks)
    if kind == "frozen":
        provider.register_pre_wrap_hook(_freeze)
    if kind == "fp32_held":
        provider.register_pre_wrap_hook(_hold_wide)
    chunks = provider.provide_distributed_model(
        ddp_config=DistributedDataParallelConfig(grad_reduce_in_fp32=True),
        wrap_with_ddp=True,
        use_cpu_initialization=True,
        mixed_precision_wrapper=Float16Module,
    )
    optimizer = get_megatron_optimizer(
        OptimizerConfig(
            optimizer="adam", lr=learning_rate, weight_decay=0.0, clip_grad=1.0, bf16=True,
            params_dtype=torch.bfloat16, use_distributed_optimizer=False,
        ),
        chunks,
    )  # fmt: skip
    chunks[0].config.finalize_model_grads_func = finalize_model_grads
    chunks[0].config.grad_scale_func = optimizer.scale_loss
    return Trainer(bridge, chunks, optimizer)


def _freeze(chunks: list[Any]) -> list[Any]:
    for chunk in chunks:
        for name, parameter in chunk.named_parameters():
            if "linear_fc2" in name:
                parameter.requires_grad_(False)
    return chunks


def _hold_wide(chunks: list[Any]) -> list[Any]:
    """Routers in float32, as the bridge lets a module ask for before it makes the rest bfloat16."""
    from megatron.core.transformer.moe.router import TopKRouter

    routers = [module for chunk in chunks for module in chunk.modules() if isinstance(module, TopKRouter)]
    for router in routers:  # none on a stage of dense layers
        router.weight.data = router.weight.data.float()
        router._keep_in_float32_parameter_names = ("weight",)
    return chunks


def step(trainer: Trainer, seed: int) -> None:
    """One optimizer step on random tokens, the same on every rank of a data-parallel replica."""
    import torch
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func

    generator = torch.Generator().manual_seed(1000 * seed + parallel_state.get_data_parallel_rank())
    microbatches = 2 * parallel_state.get_pipeline_model_parallel_world_size()
    drawn = [torch.randint(400, (BATCH, LENGTH), generator=generator) for _ in range(microbatches)]
    positions = torch.arange(LENGTH).expand(BATCH, -1).contiguous()

    def forward_step(iterator: Any, chunk: Any) -> tuple[Any, Any]:
        tokens = next(iterator)
        losses = chunk(tokens, positions, None, labels=torch.roll(tokens, -1, 1))

        def loss(output: Any) -> tuple[Any, dict[str, Any]]:
            mean = output[:, :-1].float().mean()
            return mean, {"loss": mean.detach().clone()}

        return losses, loss

    for chunk in trainer.chunks:
        chunk.zero_grad_buffer()
    trainer.optimizer.zero_grad()
    iterators = [iter(drawn) for _ in trainer.chunks]
    get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=iterators if len(iterators) > 1 else iterators[0],
        model=trainer.chunks,
        num_microbatches=microbatches,
        seq_length=LENGTH,
        micro_batch_size=BATCH,
        forward_only=False,
    )
    trainer.optimizer.step()
