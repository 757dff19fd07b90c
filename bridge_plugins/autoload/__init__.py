"""Loads the plugins when a program imports Megatron Bridge, without a line in that program.

Two ways in, both of a user's own asking: a ``.pth`` file in the environment
(`bridge_plugins.autoload.pth`), or a folder on PYTHONPATH for one command and its children
(``bridge-plugins run``). Nothing but this file runs before ``megatron.bridge`` is imported, and no error
in it reaches the program.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

AWAITED = "megatron.bridge"


class LoadBeforeBridge:
    """A finder that finds nothing: asked for `AWAITED`, it steps aside, loads the plugins, and asks again."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if name != AWAITED:
            return None
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, LoadBeforeBridge)]
        _load()
        from importlib.util import find_spec

        # The patches may have put finders of their own before the others.
        return find_spec(name)


def install() -> None:
    """Wait for Megatron Bridge in this process; nothing more if it is waited for or imported already."""
    if AWAITED not in sys.modules and not any(
        isinstance(finder, LoadBeforeBridge) for finder in sys.meta_path
    ):
        sys.meta_path.insert(0, LoadBeforeBridge())


def _load() -> None:
    try:
        from bridge_plugins.plugins import load

        load()
    except Exception as error:  # the program asked for Megatron Bridge, not for us
        print(f"bridge_plugins: not loaded: {type(error).__name__}: {error}", file=sys.stderr)
