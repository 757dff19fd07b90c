"""Whole HF tensors from the parts that an engine's ranks hold: sums of parts, comparison of replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from bridge_plugins.audit.record import Record
from bridge_plugins.engines.sglang.answer import Held
from bridge_plugins.fingerprint import Box, Coverage, CoverageReport
from bridge_plugins.fingerprint.value import Lanes, sum_of_lanes

Part = TypeVar("Part", int, str)
Place = tuple[int, ...]  #: of a part (see `answer.Held.box`)


@dataclass(frozen=True)
class Whole:
    """The lanes of a tensor as served: the record's, if every copy on every rank is right. What isn't lies on `ranks`,
    in the engine's tensors `paths`, as far as that can be told."""

    lanes: Lanes
    ranks: tuple[int, ...] = ()
    paths: tuple[str, ...] = ()


def whole_of(parts: Sequence[tuple[int, Held]], record: Record) -> Whole | str:
    """Of what the ranks hold of one tensor, or why that can't be said.

    Args:
        parts: (rank, what it holds) of every copy and part.
        record: what the trainer sent.
    """
    if other := next((held.dtype for _, held in parts if held.dtype != record.dtype), None):
        return f"the engine answered in {other}, the stream has {record.dtype}"
    if lossy := sum(held.lossy for _, held in parts):
        return f"{lossy} elements are held with other values than {record.dtype} has"
    groups: dict[Place, list[tuple[int, Held]]] = defaultdict(list)
    for rank, held in parts:
        groups[held.box].append((rank, held))
    cover = _tiling(list(groups), record)
    if isinstance(cover, str):
        return cover
    usual = _usual({place: groups[place] for place in cover}, record)

    def total(place: Place, lanes: Lanes) -> Lanes:
        return sum_of_lanes([*(parts for other, parts in usual.items() if other != place), lanes])

    lanes, ranks, paths = record.lanes, set[int](), set[str]()
    for place, holders in groups.items():
        for rank, held in holders:
            # A copy that is cut otherwise is whole by itself.
            found = total(place, held.lanes) if place in usual else held.lanes
            if found != record.lanes:
                lanes = found
                ranks.add(rank)
                paths.add(held.path)
    # Where all of several parts are needed, a wrong sum says nothing of which part is wrong.
    return Whole(
        lanes,
        _if_fewer(ranks, {rank for rank, _ in parts}),
        _if_fewer(paths, {held.path for _, held in parts}),
    )


def _usual(groups: dict[Place, list[tuple[int, Held]]], record: Record) -> dict[Place, Lanes]:
    """Of replicas that differ, those that make the tensor right: one tensor's of the engine, say, or one rank's."""
    first = {place: min(held.lanes for _, held in holders) for place, holders in groups.items()}
    everywhere = [(rank, held) for holders in groups.values() for rank, held in holders]
    for path in dict.fromkeys(held.path for _, held in everywhere):
        chosen = {p: next((h.lanes for _, h in hs if h.path == path), first[p]) for p, hs in groups.items()}
        if sum_of_lanes(list(chosen.values())) == record.lanes:
            return chosen
    for rank in dict.fromkeys(rank for rank, _ in everywhere):
        chosen = {p: next((h.lanes for r, h in hs if r == rank), first[p]) for p, hs in groups.items()}
        if sum_of_lanes(list(chosen.values())) == record.lanes:
            return chosen
    for place, holders in groups.items():
        rest = sum_of_lanes([lanes for other, lanes in first.items() if other != place])
        fitting = (held.lanes for _, held in holders if sum_of_lanes([rest, held.lanes]) == record.lanes)
        first[place] = next(fitting, first[place])
    return first


def _if_fewer(wrong: set[Part], everyone: set[Part]) -> tuple[Part, ...]:
    return tuple(sorted(wrong)) if len(wrong) < len(everyone) or len(everyone) == 1 else ()


def _tiling(groups: list[Place], record: Record) -> list[Place] | str:
    """The parts that make the tensor together: all of them, or all but those that are whole alone."""
    report = _check(groups, record)
    if report.complete:
        return groups
    alone = [group for group in groups if _check([group], record).complete]
    rest = [group for group in groups if group not in alone]
    if alone and (not rest or _check(rest, record).complete):
        return rest or alone[:1]
    return f"the engine's ranks hold it incompletely: {report}"


def _check(groups: list[Place], record: Record) -> CoverageReport:
    return Coverage(tuple(map(_box, groups))).check(record.shape)


def _box(numbers: tuple[int, ...]) -> Box:
    rows, cols, row, col, row_step, col_step = numbers
    return Box(size=(rows, cols), offset=(row, col), stride=(row_step, col_step))  # type: ignore[arg-type]
