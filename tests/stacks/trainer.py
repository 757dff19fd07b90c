"""A Megatron model as a trainer has it, built through Megatron Bridge on this rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bridge_plugins.fusions import FUSIONS
from bridge_plugins.topology import Topology


@dataclass
class Trainer:
    """One rank's bridge, provider and model chunks (one per virtual stage)."""

    bridge: Any
    provider: Any
    model: list[Any]

    def export(self) -> dict[str, Any]:
        """What the bridge yields on this rank, by HF name; a name that comes twice fails the test."""
        tensors: dict[str, Any] = {}
        for name, tensor in self.bridge.export_hf_weights(self.model, cpu=True, show_progress=False):
            assert name not in tensors, f"{name} was exported twice"
            tensors[name] = tensor
        return tensors


def build(
    checkpoint: str, topology: Topology, *, load: bool = True, peft: Any = None, **provider_fields: Any
) -> Trainer:
    """Build this rank's part of `checkpoint` for `topology`, through AutoBridge and its provider.

    `peft` is a bridge PEFT object (LoRA); `provider_fields` are set as they are (``moe_grouped_gemm=False``
    gives SequentialMLP experts). Every rank must call it: Megatron makes its process groups here.
    """
    import torch
    from megatron.bridge import AutoBridge
    from megatron.core.transformer.module import Float16Module

    bridge = AutoBridge.from_hf_pretrained(checkpoint)
    provider = bridge.to_megatron_provider(load_weights=load)
    fields: dict[str, Any] = {
        **topology.provider_fields(),
        **dict.fromkeys(FUSIONS, False),
        "use_cpu_initialization": True,
        "bf16": True,
        "params_dtype": torch.bfloat16,
        "pipeline_dtype": torch.bfloat16,
        # Gloo mixes up the batched calls of virtual stages: gradients would be silently wrong.
        **({"overlap_p2p_comm": True, "batch_p2p_comm": False} if topology.vpp > 1 else {}),
        **provider_fields,
    }
    for name, value in fields.items():
        if hasattr(provider, name):
            setattr(provider, name, value)
    provider.initialize_model_parallel(seed=1234)
    provider.finalize()
    if peft is not None:
        provider.register_pre_wrap_hook(lambda chunks: peft(chunks, training=True) or chunks)
    model = provider.provide_distributed_model(
        wrap_with_ddp=False, use_cpu_initialization=True, mixed_precision_wrapper=Float16Module
    )
    return Trainer(bridge, provider, model)
