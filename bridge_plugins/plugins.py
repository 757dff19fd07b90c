"""The plugin host: finds plugins, registers them once, and applies the patches that they bring."""

from __future__ import annotations

import functools
import importlib
import logging
import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, cast

import pluggy

from bridge_plugins import hookspecs
from bridge_plugins.errors import PatchError
from bridge_plugins.patching import Patch, Patcher, State

logger = logging.getLogger(__name__)

GROUP = "bridge_plugins"

_loading = threading.RLock()


@dataclass(frozen=True)
class Origin:
    """Where a plugin came from, and why it isn't registered if it isn't."""

    name: str
    where: str
    left_out: str = ""


@functools.cache
def manager() -> pluggy.PluginManager:
    """The process's plugin manager, with the hooks of `hookspecs` declared and nothing registered yet."""
    made = pluggy.PluginManager(hookspecs.PROJECT)
    made.add_hookspecs(hookspecs)
    return made


@functools.cache
def patcher() -> Patcher:
    """The process's patches and their states."""
    return Patcher()


@functools.cache
def origins() -> dict[str, Origin]:
    """The plugins that this process has seen, by name; filled by `load`."""
    return {}


def hooks_of(name: str) -> list[str]:
    """The hooks that the plugin `name` implements."""
    callers = manager().get_hookcallers(manager().get_plugin(name)) or []
    return sorted(caller.name for caller in callers)


def load(*, strict: bool = False) -> Patcher:
    """Register every plugin and apply every patch, in this process. Calling it again changes nothing.

    Plugins come from entry-point group ``bridge_plugins`` and from ``BRIDGE_PLUGINS=module,module``;
    those that were registered in code before keep their names. ``BRIDGE_PLUGINS_DISABLE=name,name``
    leaves plugins or patches out by name, ``=all`` all of them. Issues no collective and starts no
    process, so that every rank of a job may call it whenever it likes, from any thread. Raises
    `PatchError` only with ``strict``, when a patch was refused or has failed.
    """
    disabled = _words("BRIDGE_PLUGINS_DISABLE")
    with _loading:
        for name, where, import_plugin in _found():
            if "all" in disabled or name in disabled:
                origins().setdefault(name, Origin(name, where, "switched off by BRIDGE_PLUGINS_DISABLE"))
            else:
                _register(name, where, import_plugin)
        _apply_patches(disabled)
    bad = {name: s for name, s in patcher().status.items() if s.state in (State.FAILED, State.REFUSED)}
    if strict and bad:
        raise PatchError("; ".join(f"patch {name} {s.state.value}: {s.reason}" for name, s in bad.items()))
    return patcher()


def _found() -> Iterable[tuple[str, str, Callable[[], Any]]]:
    for entry in entry_points(group=GROUP):
        distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed distribution"
        yield entry.name, f"{entry.value} of {distribution}", entry.load
    for module in sorted(_words("BRIDGE_PLUGINS")):
        yield module, f"{module} of BRIDGE_PLUGINS", functools.partial(importlib.import_module, module)


def _register(name: str, where: str, import_plugin: Callable[[], Any]) -> None:
    if manager().has_plugin(name) or name in origins():
        return
    try:
        manager().register(import_plugin(), name)
    except (Exception, SystemExit) as error:  # a plugin that can't be imported must not stop a training run
        origins()[name] = Origin(name, where, f"{type(error).__name__}: {error}")
        logger.warning("plugin %s (%s) left out: %s: %s", name, where, type(error).__name__, error)
    else:
        origins()[name] = Origin(name, where)
        logger.info("plugin %s registered (%s)", name, where)


def _apply_patches(disabled: set[str]) -> None:
    for implementation in manager().hook.bridge_patches.get_hookimpls():
        name = implementation.plugin_name
        where = origins()[name].where if name in origins() else "registered in code"
        try:
            patches = list(cast("Iterable[Patch]", implementation.function()))
        except (Exception, SystemExit) as error:  # as above: one plugin's fault is its own
            logger.warning("plugin %s (%s) gave no patches: %s: %s", name, where, type(error).__name__, error)
            continue
        for patch in patches:
            off = patch.name in disabled or "all" in disabled
            patcher().add(patch, f"{name} ({where})", off=off)


def _words(variable: str) -> set[str]:
    return {word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()}
