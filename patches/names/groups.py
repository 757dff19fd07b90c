"""Lets Megatron Bridge ask the other pipeline stages over a process group that its framework has wrapped.

Frameworks wrap groups to free NCCL's memory while the rollout engine runs. The wrapper is in none of torch's tables,
where ``broadcast_object_list`` and ``get_process_group_ranks`` look a group up; the group inside is. The second half
of fault I.
"""

from __future__ import annotations

import types
from types import SimpleNamespace
from typing import Any

from bridge_plugins.patching import Replace, wrapping


def registered(group: Any) -> Any:
    """The group that torch knows: what the wrapper `group` holds as ``group`` now, else `group` itself."""
    import torch.distributed as dist

    inner = getattr(group, "group", None)
    return inner if isinstance(inner, dist.ProcessGroup) else group


def _broadcast(original: Any, mapping: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Asked anew at each call: groups are destroyed and made again under the same wrapper."""
    wrapper = mapping.pp_group
    inner = registered(wrapper)
    if inner is wrapper:
        return original(*args, **kwargs)
    mapping.pp_group = inner
    try:
        return original(*args, **kwargs)
    finally:
        mapping.pp_group = wrapper


def _asks_the_wrapper(original: Any) -> str:
    """Run the function's own code in a world of two stages without torch: which group does it ask?"""
    wrapper = SimpleNamespace(group="the group inside")
    asked: list[Any] = []

    def answering(result: Any) -> Any:
        def ask(*args: Any, **kwargs: Any) -> Any:
            asked.extend((*args, *kwargs.values()))
            return result

        return ask

    def all_gather_object(found: list[Any], value: Any, group: Any) -> None:
        asked.append(group)
        found[:] = [value] * len(found)

    world = SimpleNamespace(
        all_gather_object=all_gather_object,
        broadcast_object_list=answering(None),
        get_global_rank=answering(0),
        get_process_group_ranks=answering([0, 1]),
    )
    mapping = SimpleNamespace(pp_group=wrapper, pp_size=2, pp_rank=0, _broadcast_obj_cache={})
    function = types.FunctionType(
        original.__code__,
        {**original.__globals__, "torch": SimpleNamespace(distributed=world)},
        None,
        original.__defaults__,
    )
    function(mapping, 4, "count")
    return "found here: I" if any(value is wrapper for value in asked) else ""


PATCH = Replace(
    name="wrapped_groups",
    target="megatron.bridge.models.conversion.param_mapping:MegatronParamMapping.broadcast_obj_from_pp_rank",
    mends="an export with PP>1 fails where process groups are wrapped: the wrapper isn't registered (fault I)",
    replacement=wrapping(_broadcast),
    probe=_asks_the_wrapper,
    signature=("self", "obj"),
)
