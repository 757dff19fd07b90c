"""The fused kernels that only a GPU has, by the provider field that switches each; none changes a name or a shape.

Each field exists in some versions of Megatron Core only.
"""

from __future__ import annotations

from typing import Any

FUSIONS = (
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


def switch_off(provider: Any) -> None:
    """Set every one of them that `provider` has to False."""
    for field in FUSIONS:
        if hasattr(provider, field):
            setattr(provider, field, False)
