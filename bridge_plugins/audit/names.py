"""Kinds of HF names that rules treat alike: derived buffers, scales, tied and multi-token prediction tensors."""

from __future__ import annotations

import re
from functools import lru_cache

from bridge_plugins.audit.place import place_of

# Made anew by whoever needs them (rotary tables), or measured for a cache; some checkpoints carry them along.
_DERIVED = re.compile(
    r"(?:^|\.)(?:cos_sin_cache|cos_cached|sin_cached|inv_freq|original_inv_freq|position_ids|masked_bias|[kvq]_scale)$"
)
_SCALE = re.compile(
    r"(?:_scale_inv|_scale|_scale_2|_zero_point|_global_scale|\.scale|\.scales|\.input_scale)$"
)
_LORA = re.compile(r"(?:base_model\.model\.)?(.+)\.lora_[AB](?:\.default)?(?:\.weight)?")
_FUSED = re.compile(r"\.(?:qkv|gate_up)_proj$")
# May be held and sent wider than the checkpoint has them: nothing is lost.
_OFTEN_WIDE = re.compile(
    r"(?:\.gate\.weight|\.router(?:\.\w+)*|e_score_correction_bias|expert_bias|\.A_log|\.dt_bias|norm\d*\.\w+)$"
)


def is_derived(name: str) -> bool:
    """A buffer that is computed from the config, such as a rotary table."""
    return _DERIVED.search(name) is not None


def is_adapter(name: str) -> bool:
    """A tensor of an adapter that travels on its own beside the base model."""
    return ".lora_" in name or ".adapter." in name


def owners_of_adapter(name: str) -> tuple[str, ...]:
    """Names that the weight of a LoRA adapter may have in the checkpoint; none for a name of another kind."""
    match = _LORA.fullmatch(name)
    if match is None:
        return ()
    # Engines take adapters of what they fuse; of stacked experts they don't.
    parts = (
        [match[1]]
        if ".experts." in match[1]
        else [_FUSED.sub(f".{part}_proj", match[1]) for part in ("q", "gate")]
    )
    return tuple(owner for part in parts for owner in (part, f"{part}.weight"))


@lru_cache(1 << 17)
def is_scale(name: str) -> bool:
    """A companion of a quantised weight."""
    return _SCALE.search(name) is not None


def weights_of_scale(name: str) -> tuple[str, ...]:
    """Names that the weight of a scale may have, in the ways in which scales are named."""
    stem = _SCALE.sub("", name)
    return (stem, f"{stem}.weight", f"{stem}.weight_packed", f"{stem}.qweight")


def is_often_wide(name: str) -> bool:
    """A tensor that trainers keep in float32 beside bfloat16 weights: routers, expert biases, norms, A_log."""
    return _OFTEN_WIDE.search(name) is not None


def is_output_layer(name: str) -> bool:
    """The output layer, which a tied model shares with its embedding."""
    return name.rpartition("lm_head.")[1] != "" and name.endswith("weight")


def is_embedding(name: str) -> bool:
    """The word embedding."""
    return name.endswith(("embed_tokens.weight", "wte.weight", "word_embeddings.weight"))


def is_vocabulary(name: str) -> bool:
    """A tensor whose rows are the vocabulary's, which Megatron pads."""
    return is_embedding(name) or is_output_layer(name)


@lru_cache(1 << 17)  # asked of every name of a model, version after version
def is_prediction(name: str, layers: int) -> bool:
    """A multi-token prediction (MTP) tensor: ``mtp.…``, or a decoder layer beyond the config's `layers`."""
    if name.startswith("mtp.") or ".mtp." in name or ".mtp_layers." in name:
        return True
    number = place_of(name).layer_number
    if not layers or number is None or number < layers:
        return False
    return place_of(name).layer_name == f"layer {number}"  # of the decoder, not of another stack


def plain(name: str) -> str:
    """The name without what adapters add to it while they aren't merged: ``q_proj.base_layer.weight``."""
    return name.replace(".base_layer.", ".")
