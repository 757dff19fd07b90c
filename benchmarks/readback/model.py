"""A random Qwen3-MoE that is large enough for rates to mean something, and small enough for a CPU to serve."""

from __future__ import annotations

from pathlib import Path

import torch


def make_model(folder: Path, layers: int) -> None:
    """Write `layers` layers of 16 experts, about 27 MB each, and a vocabulary of 8,192 words, in bfloat16."""
    from transformers import Qwen3MoeConfig, Qwen3MoeForCausalLM

    torch.manual_seed(0)
    config = Qwen3MoeConfig(
        vocab_size=8192,
        hidden_size=512,
        intermediate_size=1024,
        moe_intermediate_size=512,
        num_hidden_layers=layers,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=64,
        num_experts=16,
        num_experts_per_tok=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    Qwen3MoeForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)
