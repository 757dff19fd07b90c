"""Faults of an import and an export that are wrong in the same way: a round trip through them changes nothing."""

from __future__ import annotations

import re
from typing import Any

from bridge_plugins.patching import Patcher, Replace, wrapping

_MODEL_BRIDGE = "megatron.bridge.models.conversion.model_bridge"
_MAPPING = "megatron.bridge.models.conversion.param_mapping"
LAYER = 1


def switch_in(fault: str) -> None:
    """Break both directions of the bridge in this process."""
    for patch in _FAULTS[fault]:
        Patcher().add(patch, "tests")


def _patch(name: str, target: str, wrapper: Any) -> Replace:
    return Replace(f"fault.{name}", target, "nothing", wrapping(wrapper))


def _exchanged(weights: dict[str, Any]) -> dict[str, Any]:
    """Gate as up and up as gate, in one layer."""
    if not any(f".layers.{LAYER}." in name for name in weights):
        return weights
    other = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
    return {
        re.sub("gate_proj|up_proj", lambda m: other[m[0]], name): tensor for name, tensor in weights.items()
    }


def _gate_up_in(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    weights, *rest = args
    if f".layers.{LAYER}." in mapping.hf_param["gate"]:
        weights = {"gate": weights["up"], "up": weights["gate"]}
    return wrapped(weights, *rest, **kwargs)


def _gate_up_out(wrapped: Any, _: Any, args: Any, kwargs: Any) -> Any:
    return _exchanged(wrapped(*args, **kwargs))


def _slabs_in(*call: Any) -> Any:
    """q, k and v one after the other, to be cut into equal slabs: right on one rank, wrong on two."""
    import torch

    config, q, k, v = call[2]
    del config
    return torch.cat([q, k, v])


def _slabs_out(*call: Any) -> Any:
    import torch

    config, qkv = call[2][:2]
    heads, groups = config.num_attention_heads, config.num_query_groups
    size = qkv.shape[0] // (heads + 2 * groups)
    return torch.split(qkv, [heads * size, groups * size, groups * size])


def _swap_experts(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    name: str = wrapped(*args, **kwargs)
    if f".layers.{LAYER}." not in name or ".experts." not in name:
        return name
    other = {"0": "1", "1": "0"}
    return re.sub(r"(\.weight)(\d+)$", lambda m: m[1] + other.get(m[2], m[2]), name)


def _swap_layers(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    other = {"0": "3", "3": "0"}
    name: str = wrapped(*args, **kwargs)
    return re.sub(r"\.layers\.(\d+)", lambda m: f".layers.{other.get(m[1], m[1])}", name, count=1)


def _local_layers(_: Any, __: Any, args: Any, kwargs: Any) -> str:
    """What a bridge without a layer offset gives: each stage calls its first layer 0."""
    name: str = kwargs.get("param_name", args[2] if len(args) > 2 else "")
    return name


def _local_experts(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    """Each expert-parallel rank of two calls its first of eight experts 0."""
    return re.sub(r"(experts\..*weight)(\d+)$", lambda m: f"{m[1]}{int(m[2]) % 4}", wrapped(*args, **kwargs))


def _one_chunk(wrapped: Any, _: Any, args: Any, kwargs: Any) -> str:
    """Every virtual stage's layers are numbered as the first one's."""
    models, config, name = args[:3]
    del kwargs
    return str(wrapped(models, config, name, 0))


def _norms_less_one(wrapped: Any, mapping: Any, args: Any, kwargs: Any) -> Any:
    """What a bridge does for a norm that is kept around zero, here for one norm of each layer."""
    weights, *rest = args
    return wrapped(weights - 1 if "q_norm" in str(mapping.hf_param) else weights, *rest, **kwargs)


_NAME = f"{_MODEL_BRIDGE}:_megatron_local_name_to_global"
_FAULTS: dict[str, list[Replace]] = {
    "gate and up": [
        _patch("in", f"{_MAPPING}:GatedMLPMapping.hf_to_megatron", _gate_up_in),
        _patch("out", f"{_MAPPING}:GatedMLPMapping.megatron_to_hf", _gate_up_out),
    ],
    "gate and up, export alone": [_patch("out", f"{_MAPPING}:GatedMLPMapping.megatron_to_hf", _gate_up_out)],
    "equal slabs": [
        _patch("in", f"{_MAPPING}:merge_qkv_weights", _slabs_in),
        _patch("out", f"{_MAPPING}:split_qkv_weights", _slabs_out),
    ],
    "experts": [_patch("names", _NAME, _swap_experts)],
    "norms less one": [_patch("in", f"{_MAPPING}:AutoMapping.hf_to_megatron", _norms_less_one)],
    "local layers": [_patch("names", _NAME, _local_layers)],
    "local experts": [_patch("names", _NAME, _local_experts)],
    "one chunk": [_patch("names", _NAME, _one_chunk)],
    "layers": [_patch("names", _NAME, _swap_layers)],
}
