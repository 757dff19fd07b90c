"""Whose bits a tensor holds: fingerprints looked up in the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from bridge_plugins.audit.causes.wording import kind
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record


def bits(record: Record) -> tuple[object, ...]:
    """What two tensors have in common exactly if they are equal."""
    return (record.lanes, record.dtype, record.shape)


def look_up(wrong: Mapping[str, Record], reference: Mapping[str, Record]) -> dict[str, list[str]]:
    """For each wrong tensor whose bits the reference has: under which names."""
    wanted = {record.lanes for record in wrong.values()}
    known: dict[object, list[str]] = defaultdict(list)
    for name, record in reference.items():
        if record.lanes in wanted:
            known[bits(record)].append(name)
    return {
        name: known[these] for name, record in wrong.items() if known and (these := bits(record)) in known
    }


def owners(candidates: Mapping[str, list[str]]) -> dict[str, str]:
    """For each tensor that was looked up, the one whose bits it holds.

    Bits that several tensors have (constants, say) tell nothing of where they came from, unless one of those stands
    where the other tensors of the same layer or expert came from. Tensors of which nothing is known are left out.
    """
    found = {name: others[0] for name, others in candidates.items() if len(others) == 1}
    moved = {(_spot(name), _spot(other)) for name, other in found.items()}
    for name, others in candidates.items():
        likely = [
            other for other in others if (_spot(name), _spot(other)) in moved and _alike_kind(name, other)
        ]
        if name not in found and len(likely) == 1:
            found[name] = likely[0]
    return found


def _spot(name: str) -> tuple[str, int | None]:
    place = place_of(name)
    return place.layer, place.expert_number


def _alike_kind(name: str, other: str) -> bool:
    return kind(place_of(name)) == kind(place_of(other))
