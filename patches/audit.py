"""``BRIDGE_AUDIT=1`` audits every export of Megatron Bridge, and nothing is wrapped without it."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patching import Patch, Replace, wrapping

if TYPE_CHECKING:
    from bridge_plugins.audit.origin import Origin

CONVERSION = "megatron.bridge.models.conversion"
MIMO = "megatron.bridge.models.megatron_mimo.conversion.orchestrator"

#: How many tasks a whole model has, by its first chunk: by this an export of some of them is known.
_tasks_of: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def wanted() -> bool:
    """Whether ``BRIDGE_AUDIT`` asks for an audit; asked before anything of it is imported."""
    return os.environ.get("BRIDGE_AUDIT", "") not in ("", "0")


def _exported(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """An export, audited; `original` is bound to its bridge."""
    from bridge_plugins.audit.automatic import automatic

    given = inspect.signature(original).bind_partial(*args, **kwargs).arguments
    return automatic().exported(original(*args, **kwargs), lambda: _origin(given))


def _exported_adapters(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from bridge_plugins.audit.automatic import automatic
    from bridge_plugins.audit.origin import Origin

    return automatic().exported(
        original(*args, **kwargs), lambda: Origin(partial="adapters alone", adapters=True)
    )


def _origin(given: dict[str, Any]) -> Origin:
    from bridge_plugins.audit.origin import Origin

    tasks = given.get("conversion_tasks")
    return Origin(
        given.get("hf_pretrained"),
        partial=_part(given.get("megatron_model"), tasks) if tasks is not None else "",
        cast=given.get("weight_dtype") is not None,
    )


def _part(model: Any, tasks: Any) -> str:
    whole = _tasks_of.get(_first(model))
    some = sum(task is not None for task in tasks)
    if whole is None:
        return f"{some} conversion tasks that were not seen being built"
    return f"{some} of {whole} conversion tasks" if some < whole else ""


def _built(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    tasks = original(*args, **kwargs)
    model = inspect.signature(original).bind_partial(*args, **kwargs).arguments.get("megatron_model")
    if model is not None:
        _tasks_of[_first(model)] = sum(task is not None for task in tasks)
    return tasks


def _first(model: Any) -> Any:
    """The innermost first chunk: an export may be given the wrapped model and its tasks the bare one."""
    chunk = model[0] if isinstance(model, (list, tuple)) else model
    while hasattr(chunk, "module"):
        chunk = chunk.module
    return chunk


def _saved(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    from bridge_plugins.audit.automatic import automatic

    with automatic().saving():
        return original(*args, **kwargs)


def _patches() -> Iterable[Patch]:
    from bridge_plugins.audit.transports import WhereItIs

    bridge, auto = f"{CONVERSION}.model_bridge:MegatronModelBridge", f"{CONVERSION}.auto_bridge:AutoBridge"
    stream, save = "what an export yields is seen by nobody", "a save is not told from an export to an engine"
    model = ("self", "megatron_model")
    for name, target, mends, wrapper, signature in (
        ("", f"{bridge}.stream_weights_megatron_to_hf", stream, _exported, (*model, "hf_pretrained")),
        ("quant", f"{bridge}.stream_weights_megatron_to_hf_quant", stream, _exported, (*model, "hf_pretrained")),
        ("adapters", f"{bridge}.stream_adapter_weights_megatron_to_hf", stream, _exported_adapters, model),
        ("mimo", f"{MIMO}:export_megatron_mimo_to_hf", stream, _exported, ("source_bridge",)),
        ("tasks", f"{bridge}.build_conversion_tasks", "an export of some tasks is not told from a whole one", _built,
         ("self", "hf_pretrained", "megatron_model")),
        ("save", f"{auto}.save_hf_weights", save, _saved, ("self", "model")),
        ("save_adapter", f"{auto}.save_hf_adapter", save, _saved, ("self", "model")),
        ("save_mimo", f"{MIMO}:save_hf_pretrained_mimo", save, _saved, ("bridge",)),
    ):  # fmt: skip
        # The one that must be there, and those that older bridges are without.
        kind = WhereItIs if name else Replace
        yield kind(
            "_".join(["audit", name]).rstrip("_"), target, mends, wrapping(wrapper), signature=signature
        )


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    return list(_patches()) if wanted() else []
