"""Mutations of what single ranks hold: named by the merge of all ranks, or by the comparison with what was exported."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from hypothesis import assume
from hypothesis import strategies as st

from bridge_plugins.audit.megatron_local.part import LocalPart, LocalParts
from tests.faults.mutations import Draw
from tests.faults.mutations_recording import Recorded

_EXPERT = re.compile(r"(?<=\.experts\.)\d+(?=\.)")


@dataclass(frozen=True)
class LocalMutation:
    """What ranks tell now, the tensors that are `wrong` in it, and the ranks of which one is to blame."""

    what: str
    held: tuple[LocalParts, ...]
    wrong: frozenset[str]
    ranks: frozenset[int]

    def __repr__(self) -> str:
        return self.what


def bits(draw: Draw, recorded: Recorded) -> LocalMutation:
    """One tensor of one rank holds other bits."""
    rank, part = _part(draw, recorded)
    lanes = (part.lanes[0] ^ (1 << draw.draw(st.integers(0, 63))), part.lanes[1])
    held = _changed(recorded, rank, {part: msgspec.structs.replace(part, lanes=lanes)})
    holders = frozenset(_holders(recorded, part))
    blamed = holders if len(holders) == 2 else frozenset({rank})  # of two that differ, nobody knows
    return LocalMutation(f"other bits in {part.name} on rank {rank}", held, frozenset({part.name}), blamed)


def lost(draw: Draw, recorded: Recorded) -> LocalMutation:
    """One tensor of one rank was never filled: another may have a copy."""
    rank, part = _part(draw, recorded)
    wrong = {part.name} if _holders(recorded, part) == [rank] else set[str]()
    held = _changed(recorded, rank, {part: None})
    return LocalMutation(f"{part.name} lost on rank {rank}", held, frozenset(wrong), frozenset({rank}))


def stale(draw: Draw, recorded: Recorded) -> LocalMutation:
    """One rank holds what it held before the step."""
    rank = draw.draw(st.integers(0, len(recorded.held) - 1))
    old = recorded.held_before[rank]
    held = list(recorded.held)
    held[rank] = msgspec.structs.replace(recorded.held[rank], parts=old.parts)
    now = {(part.name, part.path): part.lanes for part in recorded.held[rank].parts}
    moved = frozenset(part.name for part in old.parts if now[part.name, part.path] != part.lanes)
    return LocalMutation(f"rank {rank} did not step", tuple(held), moved, frozenset(range(len(held))))


def local_experts(draw: Draw, recorded: Recorded) -> LocalMutation:
    """One rank calls its experts by their numbers on this rank."""
    rank = draw.draw(st.integers(0, len(recorded.held) - 1))
    numbers = {int(match[0]) for part in recorded.held[rank].parts if (match := _EXPERT.search(part.name))}
    assume(numbers and min(numbers) > 0)
    first = min(numbers)
    changes: dict[LocalPart, LocalPart | None] = {}
    wrong = set()
    for part in recorded.held[rank].parts:
        if _EXPERT.search(part.name):
            name = _EXPERT.sub(lambda match: str(int(match[0]) - first), part.name)
            changes[part] = msgspec.structs.replace(part, name=name)
            wrong |= {name, part.name}
    held = _changed(recorded, rank, changes)
    return LocalMutation(
        f"rank {rank} counts its experts from 0", held, frozenset(wrong), frozenset(range(len(held)))
    )


def nothing(draw: Draw, recorded: Recorded) -> LocalMutation:
    """Ranks are merged in another order."""
    order = draw.draw(st.permutations(range(len(recorded.held))))
    return LocalMutation(f"order {order}", tuple(recorded.held[n] for n in order), frozenset(), frozenset())


def _part(draw: Draw, recorded: Recorded) -> tuple[int, LocalPart]:
    rank = draw.draw(st.integers(0, len(recorded.held) - 1))
    return rank, draw.draw(st.sampled_from(recorded.held[rank].parts))


def _holders(recorded: Recorded, part: LocalPart) -> list[int]:
    """The ranks that hold this very part."""
    return [
        rank
        for rank, held in enumerate(recorded.held)
        if any((other.name, other.boxes) == (part.name, part.boxes) for other in held.parts)
    ]


def _changed(
    recorded: Recorded, rank: int, changes: Mapping[LocalPart, LocalPart | None]
) -> tuple[LocalParts, ...]:
    parts = (changes.get(part, part) for part in recorded.held[rank].parts)
    held = list(recorded.held)
    held[rank] = msgspec.structs.replace(held[rank], parts=tuple(part for part in parts if part is not None))
    return tuple(held)


LOCAL: Mapping[str, Callable[[Draw, Recorded], LocalMutation]] = {
    "other bits": bits, "lost": lost, "did not step": stale, "local expert numbers": local_experts, "order": nothing,
}  # fmt: skip


def complaints(recorded: Recorded, mutation: LocalMutation) -> list[str]:
    """What is wrong with what merge and comparison say."""
    from bridge_plugins.audit.comparison import compare
    from bridge_plugins.audit.megatron_local.merge import Merge

    merge = Merge()
    for local in mutation.held:
        merge.add(local)
    summary = merge.summary()
    counted = [finding for finding in summary.findings if finding.counts]
    incomplete = {name for finding in counted if finding.rule == "COV" for name in finding.names}
    named = {name for finding in counted for name in finding.names}
    difference = compare(recorded.summary, summary)
    named |= set(difference.names)
    wrong = []
    if missed := mutation.wrong - named:
        wrong.append(f"missed: {sorted(missed)[:3]}")
    if more := named - mutation.wrong:
        wrong.append(f"false alarm: {sorted(more)[:3]}")
    for finding in counted:
        if finding.rule == "UNIQ" and not set(finding.ranks) <= mutation.ranks:
            wrong.append(f"wrong diagnosis: ranks {finding.ranks} in {finding}")
    if incomplete and mutation.what.startswith("other bits"):
        wrong.append(f"wrong diagnosis: {sorted(incomplete)[:3]} are called incomplete")
    return wrong
