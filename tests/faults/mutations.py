"""A mutation of a recorded export: what it makes of the stream, and how an audit should name it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.audit.causes.lookup import bits
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary
from tests.faults.mutations_recording import Recorded

Item = tuple[str, Tensor]
Draw = st.DataObject


@dataclass(frozen=True)
class Mutation:
    """`what` was done, the `items` that flow now, and a pattern of the sentence that should be `said` of wrong bits."""

    what: str
    items: Sequence[Item]
    said: str = r"$^"

    def __repr__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Operator:
    """A kind of mutation. `make` draws where it hits."""

    name: str
    make: Callable[[Draw, Recorded], Mutation]

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Truth:
    """What a mutation really changed, by name. A mutation may turn out to change nothing."""

    missing: frozenset[str]
    unexpected: frozenset[str]
    repeated: frozenset[str]
    conflicting: frozenset[str]
    bits: frozenset[str]
    shapes: frozenset[str]
    dtypes: frozenset[str]
    nonfinite: frozenset[str]

    @property
    def changed(self) -> frozenset[str]:
        return self.bits | self.shapes | self.dtypes

    def __bool__(self) -> bool:
        return bool(self.missing | self.unexpected | self.repeated | self.changed)


def truth(right: Summary, mutated: Summary, items: Sequence[Item]) -> Truth:
    """By looking at every record and every item: no rule of the audit has a say in it. A name's last tensor counts."""
    before, after = right.records, mutated.records
    both = [name for name in after if name in before]
    times: dict[str, list[Tensor]] = {}
    for name, tensor in items:
        times.setdefault(name, []).append(tensor)

    def where(differs: Callable[[Record, Record], bool]) -> frozenset[str]:
        return frozenset(name for name in both if differs(before[name], after[name]))

    return Truth(
        missing=frozenset(before.keys() - after.keys()),
        unexpected=frozenset(after.keys() - before.keys()),
        repeated=frozenset(name for name, tensors in times.items() if len(tensors) > 1),
        conflicting=frozenset(
            n for n, tensors in times.items() if any(not same(tensors[0], t) for t in tensors)
        ),
        bits=where(lambda a, b: (a.shape, a.dtype) == (b.shape, b.dtype) and bits(a) != bits(b)),
        shapes=where(lambda a, b: a.shape != b.shape),
        dtypes=where(lambda a, b: a.dtype != b.dtype),
        nonfinite=frozenset(n for n, r in after.items() if r.nonfinite),
    )


def same(one: Tensor, other: Tensor) -> bool:
    """Bit for bit."""
    if (one.dtype, one.shape) != (other.dtype, other.shape):
        return False
    return torch.equal(one.contiguous().view(torch.uint8), other.contiguous().view(torch.uint8))


def replaced(recorded: Recorded, changes: Mapping[str, Tensor]) -> list[Item]:
    """The stream with some tensors changed, in its order."""
    return [(name, changes.get(name, tensor)) for name, tensor in recorded.tensors.items()]


def numbers(recorded: Recorded) -> tuple[list[int], dict[int, list[int]]]:
    """The decoder's layers, and the experts of each."""
    experts: dict[int, set[int]] = {}
    for place in map(place_of, recorded.tensors):
        if place.layer_number is not None:
            mine = experts.setdefault(place.layer_number, set())
            if place.expert_number is not None:
                mine.add(place.expert_number)
    return sorted(experts), {layer: sorted(mine) for layer, mine in experts.items()}
