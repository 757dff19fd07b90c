"""Finds modules by a parameter's name, and looks through what wraps them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def find(model: Any, path: Iterable[str]) -> list[Any] | None:
    """The modules on the way from `model` along `path`, `model` first; None if the way ends early.

    Follows ``get_module_and_param_from_name`` of megatron.bridge, but steps through a wrapper that shows in
    no name.
    """
    found = [model]
    for part in path:
        for module in _inwards(found[-1]):
            following = getattr(module, part, None)
            if following is not None:
                break
        else:
            return None
        found.append(following)
    return found


def attribute(module: Any, name: str) -> Any:
    """`name` of `module`, or of what it wraps; None if none of them has it."""
    for inner in _inwards(module):
        value = getattr(inner, name, None)
        if value is not None:
            return value
    return None


def own(module: Any, name: str) -> Any:
    """`name` of `module` itself, as it was set on it; None if it wasn't."""
    return vars(module).get(name)


def is_megatron(module: Any) -> bool:
    """Whether `module`, or what it wraps, is Megatron's: only such modules are cut over pipeline stages."""
    from megatron.core.transformer.module import MegatronModule

    return any(isinstance(inner, MegatronModule) for inner in _inwards(module))


def _inwards(module: Any) -> Iterable[Any]:
    """`module`, then its only child, and so on: a wrapper is a module with one child that holds the real one."""
    yield module
    while len(children := list(getattr(module, "_modules", {}).values())) == 1 and children[0] is not None:
        module = children[0]
        yield module
