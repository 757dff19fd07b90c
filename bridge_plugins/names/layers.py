"""The built-in answer to `global_layer_number`: a layer's number, from what it knows itself."""

from __future__ import annotations

import inspect
from typing import Any

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.names import wrappers
from bridge_plugins.names.context import NameContext
from bridge_plugins.names.param_name import ParamName


@hookimpl(trylast=True)
def global_layer_number(name: ParamName, context: NameContext) -> int | None:
    """0-based, from the layer's own ``layer_number``; else from a layer beside it; else from its stack's
    offset.

    None for a name without a layer, and where nothing tells the number. A stack that no Megatron module holds
    (a vision tower of transformers, say) isn't cut over stages: there the local number is the global one.
    """
    if name.layer is None:
        return None
    found = context.find(name.layer_path)
    if found is None:
        return None
    *holders, stack, layer = found
    if (number := _number(layer)) is not None:
        return number
    for index, beside in enumerate(stack):
        if (number := _number(beside)) is not None:
            return number - index + name.layer
    if not any(wrappers.is_megatron(module) for module in holders[1:] or holders):
        return name.layer
    offset = _offset(holders[-1], context)
    return None if offset is None else offset + name.layer


def _number(layer: Any) -> int | None:
    number = wrappers.attribute(layer, "layer_number")  # Megatron's are 1-based
    return number - 1 if isinstance(number, int) else None


def _offset(owner: Any, context: NameContext) -> int | None:
    """The number of the owner's first layer here, as Megatron's own constructors compute it."""
    from megatron.core.transformer.transformer_block import TransformerBlock
    from megatron.core.transformer.transformer_layer import get_transformer_layer_offset

    offset = wrappers.attribute(owner, "pp_layer_offset")  # a hybrid stack is told its own
    if isinstance(offset, int):
        return offset
    if not isinstance(owner, TransformerBlock):
        return None
    options: dict[str, Any] = {"vp_stage": context.chunk if len(context.models) > 1 else None}
    if "pp_rank" in inspect.signature(get_transformer_layer_offset).parameters:
        options["pp_rank"] = context.pp.rank
    return int(get_transformer_layer_offset(owner.config, **options))
