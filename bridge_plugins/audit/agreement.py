"""What ranks tell each other of a version. Every rank makes the same calls, whatever it saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import torch.distributed as dist

from bridge_plugins.audit.rules import Witness
from bridge_plugins.audit.rules.manifest import typical
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import BridgePluginsError

Result = TypeVar("Result")


def witnesses(summary: Summary, group: Any) -> tuple[Witness, ...]:
    """What every rank of `group` saw, on every rank; alone, this rank's own.

    Digests travel first. Layers follow where ranks differ: which all ranks know from the digests.
    """
    if not (dist.is_available() and dist.is_initialized()):
        return (Witness.of(summary, 0),)
    own = Witness.of(summary, dist.get_rank(group))
    first: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(first, replace(own, layers={}), group=group)
    if len({other.digest for other in first}) == 1:
        return tuple(first)
    reference = typical(first)
    whole: list[Any] = [None] * len(first)
    # Only the typical rank and those that differ from it have something to add.
    tells = own.rank == reference.rank or own.digest != reference.digest
    dist.all_gather_object(whole, own if tells else replace(own, layers={}), group=group)
    return tuple(whole)


def from_first_rank(act: Callable[[], Result], group: Any) -> Result:
    """What `act` returns on the first rank, on every rank; its failure is raised on every rank."""
    if not (dist.is_available() and dist.is_initialized()):
        return act()
    shared: list[Any] = [None, ""]
    if dist.get_rank(group) == 0:
        try:
            shared[0] = act()
        except Exception as error:  # the other ranks wait for our word
            shared[1] = f"{type(error).__name__}: {error}"
    dist.broadcast_object_list(shared, group=group, group_src=0)
    if shared[1]:
        raise BridgePluginsError(f"the first rank could not judge the version: {shared[1]}")
    result: Result = shared[0]
    return result
