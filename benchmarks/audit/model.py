"""The tensors of Qwen3-30B-A3B by name, in the order in which a bridge yields them, with few rows and columns."""

from __future__ import annotations

from torch import Tensor

from benchmarks.fingerprint.shapes import EXPERTS, LAYERS, narrowed, weights, whole

NARROW = 32  #: by this rows and columns are shorter than the model's: what remains is the cost of each tensor


def names() -> list[str]:
    """All 18,867, in the order of `shapes.whole`."""
    parts = [f"self_attn.{part}_proj" for part in "qkvo"]
    parts += [
        "self_attn.q_norm",
        "self_attn.k_norm",
        "input_layernorm",
        "post_attention_layernorm",
        "mlp.gate",
    ]
    parts += [f"mlp.experts.{e}.{part}_proj" for e in range(EXPERTS) for part in ("gate", "up", "down")]
    layers = [f"model.layers.{layer}.{part}.weight" for layer in range(LAYERS) for part in parts]
    return ["model.embed_tokens.weight", "lm_head.weight", "model.norm.weight", *layers]


def tensors(device: str) -> dict[str, Tensor]:
    """Random ones, in bfloat16."""
    return dict(zip(names(), weights(narrowed(whole(), NARROW), device), strict=True))
