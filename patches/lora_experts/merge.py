"""Gives each SequentialMLP expert its own LoRA adapter when adapters are merged into exported weights.

Stock puts the adapter of the expert on *this* rank into the weights gathered from every expert-parallel rank.
"""

from __future__ import annotations

import contextlib
import dataclasses
from types import SimpleNamespace
from typing import Any

from bridge_plugins.patches import names
from bridge_plugins.patches.lora_experts.probing import Watched
from bridge_plugins.patching import Replace, wrapping


def _merge_own(original: Any, bridge: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Merge rank by rank: the weights of one rank's experts with the adapters of that rank.

    Follows what ``_merge_lora_adapter_weights`` does for grouped experts. Every expert-parallel rank gets
    here for the same task, so the gather below is met by all.
    """
    model, weights, adapters = _arguments(*args, **kwargs)
    sequential = bool(weights and adapters) and ".local_experts." in adapters[0].global_base_prefix
    # With stock names a rank finds no adapters for its experts and would not meet the others in the gather.
    if not sequential or not names.are_right():
        return original(*args, **kwargs)
    gathered = [_gather(bridge, adapter) for adapter in adapters]
    if len(gathered[0]) == 1:
        return original(*args, **kwargs)
    base = adapters[0].global_base_prefix
    experts = {name: _expert(bridge, name, base) for name in weights}
    order = sorted(set(experts.values()))  # one from each rank, and later ranks hold later experts
    if len(order) != len(gathered[0]):
        raise NotImplementedError(
            f"{base}: weights of experts {order} came from {len(gathered[0])} expert-parallel ranks, not one of "
            "each: their adapters can't be told apart; build the model with moe_grouped_gemm=True"
        )
    merged: dict[str, Any] = {}
    for rank, expert in enumerate(order):
        own = {name: weight for name, weight in weights.items() if experts[name] == expert}
        merged.update(original(model, own, [adapter[rank] for adapter in gathered]))
    return {name: merged[name] for name in weights}


def _arguments(
    megatron_model: Any, converted_weights_dict: Any, adapter_weights: Any
) -> tuple[Any, Any, Any]:
    model = megatron_model if isinstance(megatron_model, list) else [megatron_model]
    return model, converted_weights_dict, adapter_weights


def _expert(bridge: Any, hf_name: str, base: str) -> int:
    number = bridge._infer_hf_expert_idx(hf_name)
    if number is None:
        raise NotImplementedError(
            f"{hf_name} is one tensor for several experts: where the adapter of {base} belongs is unknown; "
            "build the model with moe_grouped_gemm=True"
        )
    return int(number)


def _gather(bridge: Any, adapter: Any) -> list[Any]:
    """One adapter of this local number from each expert-parallel rank, in the order of ranks."""
    sides = {}
    for side in ("linear_in_weight", "linear_out_weight"):
        named = getattr(adapter, side)
        everywhere = bridge._gather_expert_adapter_weight(named.weight.contiguous())
        sides[side] = [named._replace(weight=weight) for weight in everywhere or [named.weight]]
    return [
        dataclasses.replace(adapter, **dict(zip(sides, pair, strict=True)))
        for pair in zip(*sides.values(), strict=True)
    ]


def _merges_one_into_all(original: Any) -> str:
    """Let the function merge one expert's adapter into the weights of two: right code asks for the other's."""
    bridge = Watched()
    weights = {f"model.layers.0.mlp.experts.{number}.down_proj.weight": bridge.tensor() for number in (0, 1)}
    model = [SimpleNamespace(config=SimpleNamespace(num_moe_experts=2))]
    # Older versions merge in a LoRA module of their own, which wants process groups: by then they would have asked.
    with contextlib.suppress(AssertionError):
        original(bridge, model, weights, [bridge.adapter()])
    return "" if bridge.asked_others else "found here: A"


PATCH = Replace(
    name="lora_experts",
    target="megatron.bridge.models.conversion.peft_bridge:MegatronPeftBridge._merge_lora_adapter_weights",
    mends="adapters of SequentialMLP experts, EP>1: merged into the experts of other ranks (fault A)",
    replacement=wrapping(_merge_own),
    probe=_merges_one_into_all,
    signature=("self", "megatron_model", "converted_weights_dict", "adapter_weights"),
)
