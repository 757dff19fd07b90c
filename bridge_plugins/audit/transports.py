"""Watching a framework's own transport: what it is handed is told to the audit, what it does stays as it is.

A framework's file in ``patches/`` is a list of these. Nothing of the audit is imported until one of them runs.
"""

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from bridge_plugins.patching import Replace, State, Status, wrapping

MENDS = "what is handed to the transport is seen by nobody"

Named = tuple[str, Any]

_here = threading.local()


@dataclass(frozen=True)
class WhereItIs(Replace):
    """A replacement of what some versions of a framework have, and others do without."""

    def apply(self) -> tuple[Status, Callable[[], None]]:
        owner: Any = importlib.import_module(self.module)
        for step in self.target.partition(":")[2].split("."):
            owner = getattr(owner, step, None)
        if owner is None:
            return Status(State.NOT_NEEDED, f"this version has no {self.target}"), lambda: None
        return super().apply()


def update(name: str, target: str, *, label: str = "") -> Replace:
    """One call of `target` updates the engines to one version; `label` names the attribute that holds its label."""

    def wrapper(original: Any, instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from bridge_plugins.audit.automatic import automatic

        with automatic().updating((lambda: getattr(instance, label, "")) if label else None):
            return original(*args, **kwargs)

    return WhereItIs(name, target, "exports of one update are not told from the next", wrapping(wrapper))


def call(name: str, target: str, argument: str) -> Replace:
    """One call of `target` sends the (HF name, tensor) list that it gets as `argument`."""

    def wrapper(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from bridge_plugins.audit.handover import handed_over

        if getattr(_here, "calling", False):  # one sender that calls another sends once
            return original(*args, **kwargs)
        handed_over(
            lambda: _argument(original, args, kwargs, argument), strided=_mentions(original, "contiguous")
        )
        _here.calling = True
        try:
            return original(*args, **kwargs)
        finally:
            _here.calling = False

    return WhereItIs(name, target, MENDS, wrapping(wrapper), probe=lambda found: _takes(found, argument))


def stream(name: str, target: str, argument: str, *, maker: str = "") -> Replace:
    """`target` sends, item by item, what the iterator that it gets as `argument` yields.

    With `maker` it sends what the callable of that name makes of an item.
    """

    def wrapper(original: Any, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        from bridge_plugins.audit.automatic import automatic

        bound = inspect.signature(original).bind(*args, **kwargs)
        given = bound.arguments
        if maker:
            given[maker] = _made(given[maker])
        else:
            given[argument] = _yielded(given[argument])
        with automatic().updating():
            return original(*bound.args, **bound.kwargs)

    return WhereItIs(
        name, target, MENDS, wrapping(wrapper), probe=lambda found: _takes(found, *filter(None, (argument, maker)))
    )  # fmt: skip


def _yielded(items: Iterable[Named]) -> Iterator[Named]:
    from bridge_plugins.audit.handover import handed_over

    for item in items:
        handed_over(lambda one=item: [one], one_call=False, strided=True)  # type: ignore[misc]
        yield item
        del item  # or this tensor would live on while the next one is made


def _made(make: Callable[[Named], Any]) -> Callable[[Named], Any]:
    from bridge_plugins.audit.handover import handed_over

    def made(item: Named) -> Any:
        tensor = make(item)
        handed_over(lambda: [(item[0], tensor)], one_call=False, strided=True)
        return tensor

    return made


def _argument(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> list[Named]:
    given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    return list(given.get(name) or [])


def _takes(function: Any, *names: str) -> bool | str:
    """Whether it has these parameters: else its signature isn't the one that this was written for."""
    missing = [name for name in names if name not in inspect.signature(function).parameters]
    if missing:
        raise TypeError(f"{function.__qualname__} takes no {', '.join(missing)}")
    return True


def _mentions(function: Any, word: str) -> bool:
    """Whether the function's code calls something of that name: the transport makes views contiguous itself."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is not None and _names(code, word)


def _names(code: CodeType, word: str) -> bool:
    return word in code.co_names or any(_names(c, word) for c in code.co_consts if isinstance(c, CodeType))
