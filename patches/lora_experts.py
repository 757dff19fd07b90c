"""Gives each SequentialMLP expert its own LoRA adapter when adapters are merged into exported weights.

The other half of fault A: with right names an adapter is found for its own expert, but the merge then
puts the adapter of the expert on *this* rank into the weights gathered from every expert-parallel rank.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from bridge_plugins import plugins
from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patching import Patch, Replace, State, wrapping

PEFT = "megatron.bridge.models.conversion.peft_bridge"


def _merge_own(original: Any, bridge: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Merge rank by rank: the weights of one rank's experts with the adapters of that rank.

    Follows what ``_merge_lora_adapter_weights`` does for grouped experts. Every expert-parallel rank gets
    here for the same task, so the gather below is met by all.
    """
    model, weights, adapters = _arguments(*args, **kwargs)
    sequential = bool(weights and adapters) and ".local_experts." in adapters[0].global_base_prefix
    if not sequential or not _names_are_right():
        return original(*args, **kwargs)
    gathered = [_gather(bridge, adapter) for adapter in adapters]
    ranks = len(gathered[0])
    if ranks == 1:
        return original(*args, **kwargs)
    experts_per_rank = model[0].config.num_moe_experts // ranks
    merged = {}
    for rank in range(ranks):
        own = {
            name: weight
            for name, weight in weights.items()
            if _expert(bridge, name, adapters[0].global_base_prefix) // experts_per_rank == rank
        }
        merged.update(original(model, own, [adapter[rank] for adapter in gathered]))
    return {name: merged[name] for name in weights}


def _names_are_right() -> bool:
    """With stock names a rank finds no adapters for its experts and would not meet the others in the
    gather.
    """
    names = plugins.patcher().status.get("names")
    return names is not None and names.state in (State.APPLIED, State.NOT_NEEDED)


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


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    return [
        Replace(
            name="lora_experts",
            target=f"{PEFT}:MegatronPeftBridge._merge_lora_adapter_weights",
            mends="adapters of SequentialMLP experts, EP>1: merged into the experts of other ranks (fault A)",
            replacement=wrapping(_merge_own),
            signature=("self", "megatron_model", "converted_weights_dict", "adapter_weights"),
        )
    ]
