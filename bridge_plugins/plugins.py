"""The plugin host: finds plugins, registers them once, and applies the patches that they bring."""

from __future__ import annotations

import functools
import importlib
import logging
import os
from importlib.metadata import entry_points
from typing import Any

import pluggy

from bridge_plugins import hookspecs
from bridge_plugins.errors import PatchError
from bridge_plugins.patching import Patcher, State

logger = logging.getLogger(__name__)

GROUP = "bridge_plugins"


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


def load(*, strict: bool = False) -> Patcher:
    """Register every plugin and apply every patch, in this process. Calling it again changes nothing.

    Plugins come from entry-point group ``bridge_plugins`` and from ``BRIDGE_PLUGINS=module,module``.
    ``BRIDGE_PLUGINS_DISABLE=name,name`` leaves plugins or patches out by name, ``=all`` all of them.
    Issues no collective. Raises `PatchError` only with ``strict``, when a patch was refused or has failed.
    """
    disabled = _words("BRIDGE_PLUGINS_DISABLE")
    if "all" not in disabled:
        for entry in entry_points(group=GROUP):
            if entry.name not in disabled:
                distribution = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed distribution"
                _register(entry.name, entry.load, f"{entry.value} of {distribution}")
        for module in _words("BRIDGE_PLUGINS"):
            if module not in disabled:
                _register(module, functools.partial(importlib.import_module, module), "BRIDGE_PLUGINS")
    _apply_patches(disabled)
    bad = {name: s for name, s in patcher().status.items() if s.state in (State.FAILED, State.REFUSED)}
    if strict and bad:
        raise PatchError("; ".join(f"patch {name} {s.state.value}: {s.reason}" for name, s in bad.items()))
    return patcher()


def _apply_patches(disabled: set[str]) -> None:
    for implementation in manager().hook.bridge_patches.get_hookimpls():
        source = implementation.plugin_name
        for patch in implementation.function():
            patcher().add(patch, source, off=patch.name in disabled or "all" in disabled)


def _register(name: str, import_plugin: Any, origin: str) -> None:
    if manager().has_plugin(name):
        return
    try:
        manager().register(import_plugin(), name)
        logger.info("plugin %s registered (%s)", name, origin)
    except Exception as error:  # a plugin that can't be imported must not stop a training run
        logger.warning("plugin %s (%s) left out: %s: %s", name, origin, type(error).__name__, error)


def _words(variable: str) -> set[str]:
    return {word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()}
