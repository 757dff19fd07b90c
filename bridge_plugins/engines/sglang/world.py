"""The engine's world, all ranks of all its pipeline stages: one exchange at start, and replies from other stages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
import torch.distributed as dist

from bridge_plugins.engines.sglang.holders import Agreement, Places, agree, places
from bridge_plugins.layout.probe import Layout
from bridge_plugins.layout.sources import Source


def rank_and_size() -> tuple[int, int]:
    """This process's number in the engine's world, and the number of processes in it."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def agree_with_others(layout: Layout | None, sources: Sequence[Source]) -> tuple[Agreement | None, str]:
    """What this rank's blocks count for, and a digest of what was agreed on, the same everywhere.

    Every rank of the world must call it, also one that found no layout (None): then there is no agreement. So it is
    where ranks disagree about the sources.

    Args:
        layout: this rank's.
        sources: the HF tensors.
    """
    rank, world = rank_and_size()
    mine: Places | None = None
    if layout is not None:
        mine = places(layout.blocks, {source.name: number for number, source in enumerate(sources)})
    everyones: list[Any] = [(_digest(sources), mine)]
    if world > 1:
        everyones = [None] * world
        from sglang.srt.distributed.parallel_state import get_world_group

        dist.all_gather_object(everyones, (_digest(sources), mine), group=get_world_group().cpu_group)
    known = [held for digest, held in everyones if digest == everyones[0][0] and held is not None]
    if layout is None or len(known) < world:
        return None, ""
    agreed = agree(layout.blocks, rank, known, sources)
    spoken = hashlib.blake2b(everyones[0][0].encode(), digest_size=8)
    spoken.update(agreed.whole.tobytes())
    for held in known:
        spoken.update(held.tobytes())
    return agreed, spoken.hexdigest()


def leave_for_first_stage(request: str, rank: int, reply: str) -> None:
    """Put a reply where rank 0 finds it: a server answers for its first pipeline stage alone."""
    _store().set(_key(request, rank), reply)


def left_by_others(request: str, ranks: Sequence[int]) -> dict[int, str]:
    """The replies that are there by now; each is told once. Doesn't wait: a stage that is busy answers later."""
    store = _store()
    found = {}
    for rank in ranks:
        if store.check([_key(request, rank)]):
            found[rank] = store.get(_key(request, rank)).decode()
            store.delete_key(_key(request, rank))
    return found


def _store() -> Any:
    from torch.distributed.distributed_c10d import _get_default_store

    return _get_default_store()


def _key(request: str, rank: int) -> str:
    return f"bridge_plugins/{request}/{rank}"


def _digest(sources: Sequence[Source]) -> str:
    spelled = msgspec.json.encode([(source.name, source.shape, source.dtype) for source in sources])
    return hashlib.blake2b(spelled, digest_size=8).hexdigest()
