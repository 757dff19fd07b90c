"""From a local name to the global one: two hooks asked independently of each other, and one place that joins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bridge_plugins import plugins
from bridge_plugins.errors import NamingError
from bridge_plugins.names.context import NameContext
from bridge_plugins.names.param_name import ParamName


def local_to_global(models: Any, config: Any, param_name: str, vp_stage: int | None = None) -> str:
    """The name in the whole model of the parameter that this rank calls `param_name`.

    Stands in the place of ``model_bridge._megatron_local_name_to_global`` and takes what that takes. Works
    from the local name alone, so that nothing can be applied twice. Raises `NamingError` for a name that
    needs a number which no hook gives. Issues no collective.
    """
    name = ParamName.parse(param_name)
    if name.layer is None and name.expert is None:
        return str(name)
    chunks: Sequence[Any] = models if isinstance(models, list | tuple) else [models]
    context = NameContext(chunks, config, vp_stage or 0)
    hook = plugins.manager().hook
    layer = _checked(
        "layer", name.layer, hook.global_layer_number(name=name, context=context), name, context,
        lambda: context.pp.size > 1 or len(chunks) > 1,
    )  # fmt: skip
    expert = _checked(
        "expert", name.expert, hook.global_expert_number(name=name, context=context), name, context,
        lambda: context.ep.size > 1,
    )  # fmt: skip
    return str(name.numbered(layer=layer, expert=expert))


def _checked(
    kind: str, local: int | None, answer: Any, name: ParamName, context: NameContext, cut: Callable[[], bool]
) -> int | None:
    """The hook's answer; the local number where the model isn't `cut` along this axis and so needs no other."""
    if local is None:
        return None
    if answer is None and not cut():
        return local
    if not isinstance(answer, int) or isinstance(answer, bool) or answer < 0:
        gave = "no plugin gives" if answer is None else f"a plugin gives {answer!r} as"
        raise NamingError(
            f"{name} on {context}: {gave} its global {kind} number; enable the plugin {kind}_numbers "
            f"if it is off, or register a hook global_{kind}_number for this kind of module"
        )
    return answer
