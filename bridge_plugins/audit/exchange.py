"""How ranks bring what they hold together: those that hold the same say so in a few bytes, the others send it to rank 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec
import torch
import torch.distributed as dist

from bridge_plugins.errors import BridgePluginsError, LayoutError


class Told(Protocol):
    """What a rank tells: a msgspec struct. Ranks whose `digest` is the same tell the same."""

    @property
    def digest(self) -> bytes: ...


Local = TypeVar("Local", bound=Told)
Merged = TypeVar("Merged")


def merge_ranks(
    take: Callable[[], Local],
    add: Callable[[Local, tuple[int, ...]], None],
    merged: Callable[[], Merged],
    brief: Callable[[Merged], Merged],
    group: Any = None,
) -> Merged:
    """Every rank of `group` (a CPU group; None for the default one, if there is one) calls this.

    Numbers and names are exchanged, never a weight. Rank 0 holds what one rank told at a time.

    Args:
        take: gives what this rank tells.
        add: called on rank 0 with what several ranks told alike, and those ranks, in the order of the ranks.
        merged: called on rank 0 in the end.
        brief: what the other ranks get of that.

    Raises:
        LayoutError: on every rank, with what went wrong on one of them: none is left waiting.
    """
    if not (dist.is_available() and dist.is_initialized()):
        add(take(), (0,))
        return merged()
    local, failure = None, ""
    try:
        local = take()
    except Exception as error:  # the other ranks must hear of it
        failure = _said(error)
    payload = msgspec.msgpack.encode(local)
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (failure, len(payload), local.digest if local else b""), group=group)
    if failures := [f"rank {rank}: {word}" for rank, (word, _, _) in enumerate(told) if word]:
        raise LayoutError(failures[0])
    assert local is not None
    same: dict[bytes, list[int]] = defaultdict(list)
    for rank, (_, _, digest) in enumerate(told):
        same[digest].append(rank)
    sizes = {tuple(ranks): told[ranks[0]][1] for ranks in same.values()}
    if dist.get_rank(group):
        if same[local.digest][0] == dist.get_rank(group):
            dist.send(torch.frombuffer(bytearray(payload), dtype=torch.uint8), group=group, group_dst=0)
        others: Merged = _hear(None, group)
        return others
    result: list[Merged] = []
    problem = _receive(local, sizes, add, group)
    if not problem:
        try:
            result.append(merged())
        except Exception as error:
            problem = _said(error)
    _hear(problem or (brief(result[0]),), group)
    return result[0]


def _receive(local: Local, sizes: Mapping[tuple[int, ...], int], add: Callable[..., None], group: Any) -> str:
    """On rank 0: take one sender after another; what went wrong, if anything did: the others send all the same."""
    problem = ""
    for ranks, size in sizes.items():
        try:
            if ranks[0] == 0:
                add(local, ranks)
                continue
            buffer = torch.empty(size, dtype=torch.uint8)
            dist.recv(buffer, group=group, group_src=ranks[0])
            if not problem:
                add(msgspec.msgpack.decode(buffer.numpy().tobytes(), type=type(local)), ranks)
        except Exception as error:
            problem = problem or _said(error)
    return problem


def _hear(word: Any, group: Any) -> Any:
    """Rank 0's word: what is there for all, in a tuple, or what went wrong, as text."""
    shared = [word]
    dist.broadcast_object_list(shared, group=group, group_src=0)
    if isinstance(shared[0], str):
        raise LayoutError(shared[0])
    return shared[0][0]


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BridgePluginsError) else f"{type(error).__name__}: {error}"
