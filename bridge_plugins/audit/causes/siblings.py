"""Tensors of one layer, or of one expert, in each other's place: gate and up, q and k and v."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.wording import kind, where
from bridge_plugins.audit.place import place_of


def siblings(names: Iterable[str], owner: Mapping[str, str]) -> Iterator[Cause]:
    """One cause for each set of kinds that took each other's place, over all layers and experts."""
    by_place: dict[tuple[str, int | None], dict[str, str]] = defaultdict(dict)
    for name in names:
        place = place_of(name)
        by_place[place.layer, place.expert_number][name] = owner[name]
    alike: dict[tuple[tuple[str, str], ...], list[str]] = defaultdict(list)
    for moved in by_place.values():
        for cycle in _chains(moved):
            words = tuple(sorted((kind(place_of(name)), kind(place_of(moved[name]))) for name in cycle))
            alike[words] += cycle
    for words, members in alike.items():
        yield Cause(where(members), _said(words), tuple(members))


def _chains(moved: Mapping[str, str]) -> Iterator[list[str]]:
    """The names that are tied to each other by who holds whose bits."""
    left = dict(moved)
    while left:
        name = next(iter(left))
        chain = [name]
        while (following := left.pop(chain[-1])) in left:
            chain.append(following)
        yield chain


def _said(words: tuple[tuple[str, str], ...]) -> str:
    here = [_word(one, other) for one, other in words]
    there = [_word(other, one) for one, other in words]
    if set(here) != set(there):
        return "; ".join(
            f"{one} holds the weights of {other}" for one, other in zip(here, there, strict=True)
        )
    if len(here) == 2:
        return f"{here[0]} and {here[1]} are exchanged"
    return f"{', '.join(here)} hold the weights of {', '.join(there)}"


def _word(inside: str, other: str) -> str:
    """The part of a name that differs from another's."""
    parts, others = inside.split("."), other.split(".")
    if len(parts) != len(others):
        return inside
    return ".".join(part for part, another in zip(parts, others, strict=True) if part != another)
