"""Models by the true sizes of a public one, without its weights: a config, and files that have headers and no data."""

from __future__ import annotations

import json
import math
import struct
from pathlib import Path
from typing import Any

from bridge_plugins.names.preflight.source import from_config

_QWEN3 = {"max_position_embeddings": 4096, "rope_theta": 1e6, "head_dim": 128, "tie_word_embeddings": False}

_DEEPSEEK = {
    "vocab_size": 102400, "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
    "num_key_value_heads": 16, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
    "moe_intermediate_size": 1408, "first_k_dense_replace": 1, "moe_layer_freq": 1, "n_group": 1, "topk_group": 1,
    "max_position_embeddings": 4096,
}  # fmt: skip

#: Name → (model type in transformers, architecture, fields of its config that are not the default's).
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "qwen3-30b-a3b": (
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        {
            **_QWEN3, "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
            "num_attention_heads": 32, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8,
            "moe_intermediate_size": 768, "norm_topk_prob": True,
        },
    ),
    "qwen3-0.6b": (
        "qwen3",
        "Qwen3ForCausalLM",
        {
            **_QWEN3, "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
            "num_attention_heads": 16, "num_key_value_heads": 8, "tie_word_embeddings": True,
        },
    ),
    # DeepSeek-V2 at the sizes of V2-Lite, which itself has no q_lora_rank: there the bridge lacks a mapping.
    "deepseek-v2-small": (
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        {
            **_DEEPSEEK, "intermediate_size": 10944, "topk_method": "greedy", "scoring_func": "softmax",
            "routed_scaling_factor": 1.0, "norm_topk_prob": False, "rope_theta": 1e4,
        },
    ),
    # DeepSeek-V3's attention, and its experts' biases in float32, at those sizes.
    "deepseek-v3-small": (
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        {
            **_DEEPSEEK, "intermediate_size": 11264, "topk_method": "noaux_tc", "scoring_func": "sigmoid",
            "routed_scaling_factor": 2.446, "norm_topk_prob": True, "rope_theta": 5e4, "num_nextn_predict_layers": 0,
        },
    ),
    # Qwen3-30B-A3B in small, for a CPU.
    "tiny": (
        "qwen3_moe",
        "Qwen3MoeForCausalLM",
        {
            **_QWEN3, "vocab_size": 512, "hidden_size": 64, "intermediate_size": 192, "num_hidden_layers": 2,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 16, "num_experts": 8,
            "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True,
        },
    ),
}  # fmt: skip


def make_shapes(model: str, layers: int, folder: Path) -> None:
    """Write the folder of `model` (one of `MODELS`), with `layers` layers (0: as many as it has).

    Its files have true headers and sizes and hold no data (they take no room on a disk with sparse files): enough for
    Megatron Bridge's export, and for an engine that starts with dummy weights.
    """
    from transformers import AutoConfig

    kind, architecture, fields = MODELS[model]
    if layers:
        fields = {**fields, "num_hidden_layers": layers}
    config = AutoConfig.for_model(kind, architectures=[architecture], dtype="bfloat16", **fields)
    folder.mkdir(parents=True, exist_ok=True)
    config.save_pretrained(folder)
    tensors = {name: shape for name, shape in from_config(config, model).tensors.items() if shape is not None}
    file = "model.safetensors"
    _write_header(folder / file, tensors)
    index = {
        "metadata": {"total_size": sum(_nbytes(name, shape) for name, shape in tensors.items())},
        "weight_map": dict.fromkeys(tensors, file),
    }
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def _write_header(path: Path, tensors: dict[str, tuple[int, ...]]) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in tensors.items():
        start, end = end, end + _nbytes(name, shape)
        header[name] = {"dtype": _dtype(name), "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def _dtype(name: str) -> str:
    """As safetensors spells it: what is added to a router's scores is float32 in the public checkpoints."""
    return "F32" if name.endswith(".e_score_correction_bias") else "BF16"


def _nbytes(name: str, shape: tuple[int, ...]) -> int:
    return {"F32": 4, "BF16": 2}[_dtype(name)] * math.prod(shape)
