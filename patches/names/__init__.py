"""Right names: the two hooks in the place of Megatron Bridge's name function, and what else it needs to be asked."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patches.names import groups, mapping
from bridge_plugins.patching import Patch, State
from bridge_plugins.plugins import patcher


def are_right() -> bool:
    """Whether names are global in this process: the patch is applied, or nothing is there to be mended."""
    status = patcher().status.get(mapping.PATCH.name)
    return status is not None and status.state in (State.APPLIED, State.NOT_NEEDED)


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    return [mapping.PATCH, groups.PATCH]
