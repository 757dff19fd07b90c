"""Lets an export of the adapters alone carry those of every expert, on every rank.

Stock yields on each expert-parallel rank the adapters of that rank's SequentialMLP experts only, so what the first
rank saves or sends lacks the rest.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from bridge_plugins.names.param_name import ParamName
from bridge_plugins.patches import names
from bridge_plugins.patches.lora_experts.probing import Watched
from bridge_plugins.patching import Replace, wrapping


def _stream_all(original: Any, bridge: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Any]:
    """Yield, in the place of each tensor of a SequentialMLP expert, that tensor of every expert-parallel rank.

    All ranks stream the same tasks in the same order (that of layers and experts), so the gathers meet.
    """
    if not names.are_right():
        yield from original(*args, **kwargs)
        return
    call = inspect.signature(original).bind(*args, **kwargs)
    call.apply_defaults()
    cpu = call.arguments["cpu"]
    call.arguments["cpu"] = False  # a tensor is gathered where the model is
    others = _names_on_every_rank(bridge, call.arguments)
    for item in original(*call.args, **call.kwargs):
        everywhere = others.get(item.param_name)
        if everywhere is None:
            yield item._replace(weight=item.weight.cpu()) if cpu else item
            continue
        gathered = bridge._gather_expert_adapter_weight(item.weight.contiguous())
        for name, weight in zip(everywhere, gathered, strict=True):
            yield item._replace(param_name=name, weight=weight.cpu() if cpu else weight)


def _names_on_every_rank(bridge: Any, arguments: dict[str, Any]) -> dict[str, list[str]]:
    """What each adapter tensor of an expert here is called on every expert-parallel rank, in the order of ranks.

    One gather of small objects for a whole export; empty, with no gather, without SequentialMLP experts or EP.
    """
    import torch.distributed as dist
    from megatron.core import parallel_state

    ranks = parallel_state.get_expert_model_parallel_world_size()
    model = arguments["megatron_model"]
    excluded = arguments.get("exclude_adapter_base_prefixes")  # since 0.6
    tasks = [
        task
        for of_one_base in bridge.build_adapter_conversion_tasks(
            model if isinstance(model, list) else [model],
            **({"exclude_adapter_base_prefixes": excluded} if excluded is not None else {}),
        ).values()
        for task in of_one_base
        if ".local_experts." in task.global_base_prefix
    ]
    if ranks == 1 or not tasks:
        return {}
    registry = bridge.mapping_registry()
    experts: list[Any] = [None] * ranks
    dist.all_gather_object(
        experts,
        [ParamName.parse(task.global_base_prefix).expert for task in tasks],
        group=parallel_state.get_expert_model_parallel_group(),
    )
    found: dict[str, list[str]] = {}
    for task, numbers in zip(tasks, zip(*experts, strict=True), strict=True):
        prefix = ParamName.parse(task.global_base_prefix)
        everywhere = [_lora_names(bridge, registry, prefix.numbered(expert=n), task) for n in numbers]
        here = _lora_names(bridge, registry, prefix, task)
        found.update({name: list(same) for name, *same in zip(here, *everywhere, strict=True)})
    return found


def _lora_names(bridge: Any, registry: Any, prefix: ParamName, task: Any) -> list[str]:
    bases = bridge._get_base_hf_param_names_for_adapter(registry, str(prefix), task.adapter_key, ".weight")
    if any(bridge._infer_hf_expert_idx(base) is None for base in bases):
        raise NotImplementedError(
            f"{bases[0]} is one tensor for several experts: what the adapter of {prefix} is called is unknown; "
            "build the model with moe_grouped_gemm=True"
        )
    return [
        bridge._make_lora_param_name(base, side)
        for base in bases
        for side in (".linear_in.weight", ".linear_out.weight")
    ]


def _streams_its_own(original: Any) -> str:
    """Let the function stream one expert's adapter: right code asks for the other ranks' too."""
    bridge = Watched()
    model = SimpleNamespace(config=SimpleNamespace(num_moe_experts=2))
    yielded = list(original(bridge, [model], cpu=False, show_progress=False))
    return "" if bridge.asked_others or len(yielded) != 2 else "found here: A"


PATCH = Replace(
    name="lora_experts_alone",
    # Set on the class that inherits it: the function needs names of model_bridge, which imports peft_bridge first.
    target="megatron.bridge.models.conversion.model_bridge:MegatronModelBridge.stream_adapter_weights_megatron_to_hf",
    mends="adapters of SequentialMLP experts, EP>1: exported alone, each rank has its own only (fault A)",
    replacement=wrapping(_stream_all),
    probe=_streams_its_own,
    signature=("self", "megatron_model", "cpu", "show_progress"),
)
