"""The built-in answer to `global_expert_number`: an expert's number, from what its layer knows itself."""

from __future__ import annotations

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.names import wrappers
from bridge_plugins.names.context import NameContext
from bridge_plugins.names.groups import place
from bridge_plugins.names.param_name import ParamName


@hookimpl(trylast=True)
def global_expert_number(name: ParamName, context: NameContext) -> int | None:
    """0-based, from the layer's own ``local_expert_indices``; else this rank's place times the layer's count.

    Never from the config: layers may differ in their number of experts. None for a name without an expert
    number, and where nothing tells it.
    """
    if name.expert is None:
        return None
    found = context.find(name.experts_path)
    if found is None:
        return None
    *_, layer, experts = found
    indices = wrappers.attribute(layer, "local_expert_indices")
    if indices:
        return int(indices[name.expert]) if name.expert < len(indices) else None
    count = wrappers.attribute(experts, "num_local_experts")
    if not isinstance(count, int) or name.expert >= count:
        return None
    group = wrappers.attribute(experts, "ep_group") or wrappers.attribute(layer, "ep_group")
    here = place(group) if group is not None else context.ep
    return here.rank * count + name.expert
