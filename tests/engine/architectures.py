"""Tiny checkpoints of architectures that SGLang serves, with random weights: no two tensors are alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

COMMON: dict[str, Any] = {
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
HEADS = {"head_dim": 16}
UNTIED = {"tie_word_embeddings": False}
EXPERTS = {"num_experts_per_tok": 2, "moe_intermediate_size": 64}
LATENT = {
    "q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    "num_key_value_heads": 4,
}  # fmt: skip
#: On a CPU, SGLang has no other rotary embedding for latent attention.
YARN = {
    "rope_parameters": {
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 64,
        "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 1.0,
    }
}  # fmt: skip
ROUTED = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "moe_layer_freq": 1,
}

#: architecture: (the config's class in transformers, its fields, whether it has experts)
ARCHITECTURES: dict[str, tuple[str, dict[str, Any], bool]] = {
    "Llama": ("LlamaConfig", {**COMMON, **UNTIED}, False),
    "Llama, attention biases": ("LlamaConfig", {**COMMON, **UNTIED, "attention_bias": True}, False),
    "Mistral": ("MistralConfig", {**COMMON, **HEADS, **UNTIED}, False),
    "Qwen2": ("Qwen2Config", {**COMMON, **UNTIED}, False),
    "Qwen3": ("Qwen3Config", {**COMMON, **HEADS, **UNTIED}, False),
    "Qwen3, tied embeddings": ("Qwen3Config", {**COMMON, **HEADS, "tie_word_embeddings": True}, False),
    "Qwen3, one key-value head": ("Qwen3Config", {**COMMON, **HEADS, **UNTIED, "num_key_value_heads": 1}, False),
    "Qwen3, odd vocabulary": ("Qwen3Config", {**COMMON, **HEADS, **UNTIED, "vocab_size": 509}, False),
    "Phi3": ("Phi3Config", {**COMMON, **UNTIED}, False),
    "Olmo2": ("Olmo2Config", {**COMMON, **UNTIED}, False),
    "Gemma2": ("Gemma2Config", {**COMMON, **HEADS, "hidden_act": "gelu_pytorch_tanh"}, False),
    "Gemma3": ("Gemma3TextConfig", {**COMMON, **HEADS, "hidden_act": "gelu_pytorch_tanh"}, False),
    "GLM4": ("Glm4Config", {**COMMON, **HEADS, **UNTIED}, False),
    "Granite": ("GraniteConfig", {**COMMON, **UNTIED}, False),
    "StarCoder2": ("Starcoder2Config", {**COMMON, **UNTIED, "use_bias": True}, False),
    "Qwen2-MoE": (
        "Qwen2MoeConfig",
        {**COMMON, **UNTIED, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 64},
        True,
    ),
    "Qwen3-MoE": ("Qwen3MoeConfig", {**COMMON, **HEADS, **UNTIED, **EXPERTS, "num_experts": 4}, True),
    "Mixtral": ("MixtralConfig", {**COMMON, **UNTIED, "num_local_experts": 4, "num_experts_per_tok": 2}, True),
    "OLMoE": (
        "OlmoeConfig",
        {**COMMON, **UNTIED, "num_key_value_heads": 4, "num_experts": 4, "num_experts_per_tok": 2},
        True,
    ),
    "DeepSeek-V2": (
        "DeepseekV2Config",
        {**COMMON, **UNTIED, **EXPERTS, **LATENT, **YARN, **ROUTED, "topk_method": "greedy", "scoring_func": "softmax"},
        True,
    ),
    "DeepSeek-V3": (
        "DeepseekV3Config",
        {**COMMON, **UNTIED, **EXPERTS, **LATENT, **YARN, **ROUTED, "scoring_func": "sigmoid", "topk_method": "noaux_tc"},
        True,
    ),
    "GLM4-MoE": ("Glm4MoeConfig", {**COMMON, **HEADS, **UNTIED, **EXPERTS, **ROUTED, "use_qk_norm": True}, True),
    "GPT-OSS": (
        "GptOssConfig",
        {**COMMON, **HEADS, **UNTIED, "swiglu_limit": 7.0, "num_local_experts": 4, "num_experts_per_tok": 2},
        True,
    ),
    "MiniMax-M2": (
        "MiniMaxM2Config",
        {**COMMON, **HEADS, **UNTIED, "num_local_experts": 4, "num_experts_per_tok": 2, "use_qk_norm": True,
         "scoring_func": "sigmoid", "use_routing_bias": True, "attn_type_list": [1, 1], "rotary_dim": 8},
        True,
    ),
    "Ernie4.5-MoE": (
        "Ernie4_5_MoeConfig",
        {**COMMON, **UNTIED, "moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 64, "moe_num_shared_experts": 1},
        True,
    ),
    "Qwen3-Next": (
        "Qwen3NextConfig",
        {
            **COMMON, **HEADS, **UNTIED, **EXPERTS, "num_experts": 4, "shared_expert_intermediate_size": 64,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
            "linear_value_head_dim": 16, "layer_types": ["linear_attention", "full_attention"],
            "full_attention_interval": 2,
        },
        True,
    ),
}  # fmt: skip

#: With a layer that guesses the next token but one, which a server serves as a draft model beside the target.
DRAFTED = "DeepSeek-V3, next-token layer"
_, _fields, _ = ARCHITECTURES["DeepSeek-V3"]
WITH_DRAFTS = {DRAFTED: ("DeepseekV3Config", {**_fields, "num_nextn_predict_layers": 1}, True)}

#: Arguments that a server of that architecture can't do without. On a CPU the draft never runs: it has no kernels there.
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "GPT-OSS": ("--attention-backend", "triton"),
    DRAFTED: (
        "--attention-backend", "triton", "--speculative-algorithm", "EAGLE", "--speculative-num-steps", "1",
        "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "2",
    ),
}  # fmt: skip


def make(architecture: str, folder: Path) -> None:
    """Write a bf16 checkpoint."""
    import torch
    import transformers

    config_class, fields, _ = (ARCHITECTURES | WITH_DRAFTS)[architecture]
    config = getattr(transformers, config_class)(**fields)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in (*model.parameters(), *model.buffers()):
            if parameter.is_floating_point():
                parameter.normal_(0, 0.05).add_(1.0 if parameter.dim() == 1 else 0.0)
    model.to(torch.bfloat16).save_pretrained(folder)
    if architecture == DRAFTED:
        _add_next_token_layer(folder, config.num_hidden_layers)


def _add_next_token_layer(folder: Path, number: int) -> None:
    """transformers has no module for it: a layer like the last one, and what joins it to the layers before."""
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(folder / "model.safetensors")
    layer, last = f"model.layers.{number}.", f"model.layers.{number - 1}."
    like = {
        layer + name.removeprefix(last): weight for name, weight in weights.items() if name.startswith(last)
    }
    norm = weights["model.norm.weight"]
    like |= {layer + name: norm for name in ("enorm.weight", "hnorm.weight", "shared_head.norm.weight")}
    like[layer + "eh_proj.weight"] = torch.cat([weights[last + "self_attn.o_proj.weight"]] * 2, 1)
    weights |= {name: torch.randn(weight.shape).to(weight.dtype) for name, weight in like.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
