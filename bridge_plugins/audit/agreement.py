"""What ranks tell each other of a version. Every rank makes the same calls, whatever it saw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch.distributed as dist

from bridge_plugins.audit.rules import Witness
from bridge_plugins.audit.rules.manifest import typical
from bridge_plugins.audit.summary import Summary


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
