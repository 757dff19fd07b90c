"""Right names in every topology for Megatron Bridge, and proof that the engine serves the trainer's weights.

The public names are loaded when first used, so that ``import bridge_plugins`` (and the command lines' ``--help``)
costs no torch, no Megatron and no SGLang.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bridge_plugins.audit import WeightAudit
    from bridge_plugins.fingerprint import fingerprint
    from bridge_plugins.hookspecs import hookimpl
    from bridge_plugins.plugins import load
    from bridge_plugins.topology import Topology

__all__ = ["Topology", "WeightAudit", "fingerprint", "hookimpl", "load"]

_HOME = {
    "Topology": "bridge_plugins.topology",
    "WeightAudit": "bridge_plugins.audit",
    "hookimpl": "bridge_plugins.hookspecs",
    "load": "bridge_plugins.plugins",
}


def __getattr__(name: str) -> Any:
    # `fingerprint` is both a room and the call in it: `from bridge_plugins import fingerprint` gives the room,
    # which is callable's home; see bridge_plugins/fingerprint/__init__.py.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
