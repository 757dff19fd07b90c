"""A tiny random checkpoint in Hugging Face format, with a tokenizer made from the text beside this file."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from transformers.utils import logging

TEXT = Path(__file__).with_name("text.txt")
VOCABULARY = 512

_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 64,  # of the sizes that the engine has a kernel for on a GPU
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
_EXPERTS = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64, "norm_topk_prob": True}

KINDS = ("moe", "dense")


def make_checkpoint(kind: str, folder: Path, seed: int = 0) -> None:
    """Write a Qwen3 ("dense") or Qwen3-MoE ("moe") model of 4 layers in bfloat16, and its tokenizer."""
    logging.disable_progress_bar()
    torch.manual_seed(seed)
    model: PreTrainedModel = (
        Qwen3MoeForCausalLM(Qwen3MoeConfig(**_SIZES, **_EXPERTS))
        if kind == "moe"
        else Qwen3ForCausalLM(Qwen3Config(**_SIZES))
    )
    with torch.no_grad():
        for parameter in model.parameters():
            # Norms away from 1 and no constant anywhere: two exchanged tensors must never be equal.
            parameter.normal_(1.0 if parameter.ndim == 1 else 0.0, 0.05)
    model.to(torch.bfloat16).save_pretrained(folder)
    _make_tokenizer().save_pretrained(folder)


def _make_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train([str(TEXT)], trainer)
    names = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)
