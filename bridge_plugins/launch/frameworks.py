"""What a framework is told to call, so that the plugins are loaded in each process that trains; see `external_lib` too."""

from __future__ import annotations

import bridge_plugins

#: What miles and slime find `megatron_init` by.
MEGATRON_INIT = f"{__name__}.megatron_init"
#: What verl imports.
EXTERNAL_LIB = "bridge_plugins.launch.external_lib"


def megatron_init(args: object) -> None:
    """For ``--custom-megatron-init-path`` of miles and slime: called on each rank with Megatron's arguments."""
    del args
    bridge_plugins.load()
