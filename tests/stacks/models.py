"""Tiny checkpoints with random weights, made by transformers: one folder per family and set of sizes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.version import Version

from tests.stacks.ranks import Ranks

COMMON = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
HEADS = {"head_dim": 16}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 32}
LATENT = {
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 16,
    "v_head_dim": 16,
    "num_key_value_heads": 8,
}
QWEN3_MOE = {**COMMON, **HEADS, **EXPERTS, "num_experts": 8, "norm_topk_prob": True}

#: family: (the config's and the model's class in transformers, the config's fields)
FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3": ("Qwen3Config", "Qwen3ForCausalLM", {**COMMON, **HEADS}),
    "qwen3_tied": ("Qwen3Config", "Qwen3ForCausalLM", {**COMMON, **HEADS, "tie_word_embeddings": True}),
    "qwen3_moe": ("Qwen3MoeConfig", "Qwen3MoeForCausalLM", QWEN3_MOE),
    # Layer 0 is dense, there are shared experts, attention is latent.
    "deepseek_v3": (
        "DeepseekV3Config",
        "DeepseekV3ForCausalLM",
        {
            **COMMON,
            **EXPERTS,
            **LATENT,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "n_group": 2,
            "topk_group": 1,
            "scoring_func": "sigmoid",  # transformers 4 keeps it, 5 takes it for granted
            "first_k_dense_replace": 1,
        },
    ),
    "qwen3_vl_moe": (
        "Qwen3VLMoeConfig",
        "Qwen3VLMoeForConditionalGeneration",
        {
            "tie_word_embeddings": False,
            "text_config": {
                **QWEN3_MOE,
                "decoder_sparse_step": 1,
                "mlp_only_layers": [],
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10000.0,
                    "mrope_section": [2, 3, 3],
                    "mrope_interleaved": True,
                },
            },
            "vision_config": {
                "depth": 4,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 64,
                "patch_size": 4,
                "spatial_merge_size": 2,
                "temporal_patch_size": 2,
                "deepstack_visual_indexes": [0, 1],
                "num_position_embeddings": 64,
            },
            "image_token_id": 500,
            "video_token_id": 501,
            "vision_start_token_id": 502,
            "vision_end_token_id": 503,
        },
    ),
}

Checkpoint = Callable[..., Path]

NEW_ROPE = pytest.mark.skipif(
    Version(version("transformers")) < Version("5.4"),
    reason="the config's rope is spelt as transformers 5.4 does",
)

WHOLE_DEEPSEEK = pytest.mark.skipif(
    Version(version("megatron-bridge")) < Version("0.5"),
    reason="older bridges map neither DeepSeek's single experts nor its MTP layers",
)


def make(family: str, folder: str, sizes: dict[str, Any]) -> None:
    """Write a bf16 checkpoint of `family`, every tensor random: no two experts or layers are alike."""
    import torch
    import transformers

    config_class, model_class, fields = FAMILIES[family]
    config = getattr(transformers, config_class)(**{**fields, **sizes})
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.05).add_(1.0 if parameter.dim() == 1 else 0.0)
    model.to(torch.bfloat16).save_pretrained(folder)


@pytest.fixture(scope="session")
def checkpoint(ranks: Ranks, tmp_path_factory: pytest.TempPathFactory) -> Checkpoint:
    """``checkpoint("qwen3_moe", num_hidden_layers=6)``: a tiny checkpoint's folder, made once per session."""
    root = tmp_path_factory.mktemp("checkpoints")

    def get(family: str, **sizes: Any) -> Path:
        key = (
            hashlib.sha256(msgspec.json.encode(sizes, order="sorted")).hexdigest()[:8] if sizes else "default"
        )
        folder = root / f"{family}-{key}"
        if not folder.exists():
            ranks("tests.stacks.models:make", backend=None, family=family, folder=str(folder), sizes=sizes)
        return folder

    return get
