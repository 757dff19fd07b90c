"""The same modules at another expert-parallel rank: there the numbers differ, not the modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bridge_plugins.names import wrappers


class Group:
    """An expert-parallel group as one of its ranks sees it."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank, self._size = rank, size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size


def move(models: Iterable[Any], rank: int, size: int) -> None:
    """Make `models`, built at expert-parallel rank 0, those of `rank` of `size`.

    Repeats what ``BaseMoELayer.__init__`` does with its group; `check` holds it against modules that were
    really built at the last rank.
    """
    from megatron.core import parallel_state

    group = Group(rank, size)
    parallel_state._EXPERT_MODEL_PARALLEL_GROUP = group
    for model in models:
        for module in model.modules():
            if wrappers.own(module, "ep_group"):
                module.ep_group = group
            if indices := wrappers.own(module, "local_expert_indices"):
                module.local_expert_indices = [rank * len(indices) + index for index in range(len(indices))]
            if (groups := wrappers.own(module, "pg_collection")) and getattr(groups, "ep", None) is not None:
                groups.ep = group
