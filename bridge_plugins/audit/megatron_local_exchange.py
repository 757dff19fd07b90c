"""How ranks bring their parts together: ranks that hold the same say so in a few bytes, the others send theirs to rank 0."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
import torch.distributed as dist

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.megatron_local_merge import Merge
from bridge_plugins.audit.megatron_local_part import LocalParts
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import BridgePluginsError, LayoutError


def merge_ranks(take: Callable[[], LocalParts], group: Any = None) -> tuple[Summary, list[Finding]]:
    """Every rank of `group` (a CPU group) calls this with what takes its parts; see `LocalAudit.finish`.

    Numbers and parts' records are exchanged, never a weight. Rank 0 takes one rank's after another. If a rank fails, all
    raise `LayoutError`: none is left waiting.
    """
    if not (dist.is_available() and dist.is_initialized()):
        merge = Merge()
        merge.add(take())
        summary = merge.summary()
        return summary, summary.findings
    local, failure = None, ""
    try:
        local = take()
    except Exception as error:  # the other ranks must hear of it
        failure = _said(error)
    payload = msgspec.msgpack.encode(local)
    told: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(told, (failure, len(payload), local.digest if local else b""), group=group)
    _raise_together(next((f"rank {rank}: {word}" for rank, (word, _, _) in enumerate(told) if word), ""))

    same: dict[bytes, list[int]] = defaultdict(list)
    for rank, (_, _, digest) in enumerate(told):
        same[digest].append(rank)
    first = _on_first(payload, {tuple(ranks): told[ranks[0]][1] for ranks in same.values()}, group)
    shared: list[Any] = [first.brief() if isinstance(first, Summary) else first]
    dist.broadcast_object_list(shared, group=group, group_src=0)
    brief = shared[0]
    _raise_together(brief if isinstance(brief, str) else "")
    return (first if isinstance(first, Summary) else brief), brief.findings


def _on_first(payload: bytes, sizes: Mapping[tuple[int, ...], int], group: Any) -> Summary | str | None:
    """On rank 0 the summary, or what went wrong; elsewhere None. `sizes`: ranks that hold the same → bytes of that."""
    rank, merge, wrong = dist.get_rank(group), Merge(), ""
    for ranks, size in sizes.items():
        content = payload
        if ranks[0] == rank != 0:
            dist.send(_bytes(payload), group=group, group_dst=0)
        elif rank == 0 and ranks[0] != 0:
            buffer = torch.empty(size, dtype=torch.uint8)
            dist.recv(buffer, group=group, group_src=ranks[0])
            content = buffer.numpy().tobytes()
        if rank == 0 and not wrong:
            try:
                merge.add(msgspec.msgpack.decode(content, type=LocalParts), ranks)
            except Exception as error:  # the others go on sending, and wait for our word
                wrong = _said(error)
    if rank:
        return None
    try:
        return wrong or merge.summary()
    except Exception as error:
        return _said(error)


def _bytes(content: bytes) -> torch.Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, BridgePluginsError) else f"{type(error).__name__}: {error}"


def _raise_together(problem: str) -> None:
    if problem:
        raise LayoutError(problem)
