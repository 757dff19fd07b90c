"""Tensors that moved alike are told together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bridge_plugins.audit.causes.wording import leaves

Source = dict[int, int]
"""For each number, whose weights it carries."""

Alike = tuple[str, frozenset[tuple[int, int]]]


def alike(moved: Mapping[tuple[str, str], Source]) -> dict[Alike, list[str]]:
    """(first key, the mapping) → the second keys that have it."""
    grouped: dict[Alike, list[str]] = defaultdict(list)
    for (first, second), source in moved.items():
        grouped[first, frozenset(source.items())].append(second)
    return grouped


def alone(names: Iterable[str]) -> str:
    """What is said of a move that not every tensor took part in."""
    return f" ({leaves(names)} alone)"
