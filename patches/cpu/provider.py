"""What a provider of Megatron Bridge must be told to build and run its model on a CPU."""

from __future__ import annotations

from typing import Any

from bridge_plugins.fusions import switch_off


def adapt(provider: Any) -> None:
    """Set the fields of `provider`, whose parallel sizes are set already."""
    provider.use_cpu_initialization = True
    switch_off(provider)
    if provider.virtual_pipeline_model_parallel_size:
        # Batched sends and receives are NCCL's: over gloo they mix up chunks, and gradients are silently wrong.
        provider.overlap_p2p_comm, provider.batch_p2p_comm = True, False
