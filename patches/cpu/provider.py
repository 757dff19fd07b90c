"""What a provider of Megatron Bridge must be told to build and run its model on a CPU."""

from __future__ import annotations

from typing import Any

# Fused kernels that a CPU has not got; each field exists in some versions of the provider only.
_FUSIONS = (
    "gradient_accumulation_fusion",
    "bias_activation_fusion",
    "bias_dropout_fusion",
    "masked_softmax_fusion",
    "apply_rope_fusion",
    "moe_permute_fusion",
    "moe_router_fusion",
    "persist_layer_norm",
    "cross_entropy_loss_fusion",
)


def adapt(provider: Any) -> None:
    """Set the fields of `provider`, whose parallel sizes are set already."""
    provider.use_cpu_initialization = True
    for field in _FUSIONS:
        if hasattr(provider, field):
            setattr(provider, field, False)
    if provider.virtual_pipeline_model_parallel_size:
        # Batched sends and receives are NCCL's: over gloo they mix up chunks, and gradients are silently wrong.
        provider.overlap_p2p_comm, provider.batch_p2p_comm = True, False
