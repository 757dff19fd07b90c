"""Layers that carry other layers' weights."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from bridge_plugins.audit.causes.alike import Alike, Source, alike, alone
from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.lookup import bits
from bridge_plugins.audit.causes.numbers import renumbered
from bridge_plugins.audit.causes.wording import layers
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record


@dataclass(frozen=True)
class LayerMoves:
    """Tensors that hold the bits of another layer's tensor of the same name inside: name → that tensor (`owner`)."""

    owner: Mapping[str, str]
    reference: Mapping[str, Record]

    def causes(self) -> Iterator[Cause]:
        """Layers by number, for all tensors of a stack that moved alike."""
        moved: dict[tuple[str, str], Source] = defaultdict(dict)
        for name, other in self.owner.items():
            here, there = place_of(name), place_of(other).layer_number
            assert here.layer_number is not None
            assert there is not None
            moved[here.stack, here.inside][here.layer_number] = there
        for (stack, source), insides in self._joined(alike(moved)).items():
            total = len(self._numbers[stack])
            for told in renumbered(dict(source), total, layers(stack, [0]).removesuffix(" 0")):
                wrong = (f"{stack}.{number}.{inside}" for number in told.numbers for inside in insides)
                explained = tuple(name for name in wrong if name in self.owner)
                whole = self._whole(stack, dict(source), told.numbers, insides)
                yield Cause(told.subject, told.predicate + ("" if whole else alone(explained)), explained)

    def _joined(self, moved: Mapping[Alike, list[str]]) -> dict[Alike, list[str]]:
        """Join a tensor that moved with a larger move where it only seems to have stayed: two layers hold equal
        bits of it.
        """
        joined: dict[Alike, list[str]] = {}
        for (stack, source), insides in sorted(moved.items(), key=lambda pair: -len(pair[0][1])):
            for other_stack, larger in joined:
                unseen = larger - source
                if stack == other_stack and source < larger and self._hidden(stack, unseen, insides):
                    joined[stack, larger] += insides
                    break
            else:
                joined[stack, source] = list(insides)
        return joined

    def _hidden(self, stack: str, moves: Iterable[tuple[int, int]], insides: list[str]) -> bool:
        """Whether these moves of a layer would change nothing of these tensors."""
        return all(
            self._equal(f"{stack}.{number}.{inside}", f"{stack}.{other}.{inside}")
            for number, other in moves
            for inside in insides
        )

    def _whole(self, stack: str, source: Source, numbers: Iterable[int], insides: list[str]) -> bool:
        """Whether these layers carry the other layers' weights in every tensor."""
        moved = set(insides)
        return all(
            inside in moved or self._equal(f"{stack}.{number}.{inside}", f"{stack}.{source[number]}.{inside}")
            for number in numbers
            for inside in self._numbers[stack][number]
        )

    def _equal(self, one: str, other: str) -> bool:
        records = self.reference
        return one in records and other in records and bits(records[one]) == bits(records[other])

    @cached_property
    def _numbers(self) -> dict[str, dict[int, set[str]]]:
        """stack → layer number → names inside, of the stacks in question."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for stack in {place_of(name).stack for name in self.owner}:
            before = len(stack) + 1
            for name in self.reference:
                if name.startswith(f"{stack}."):  # several times as fast as a look at each name's place
                    number, _, inside = name[before:].partition(".")
                    if number.isdecimal():
                        found[stack][int(number)].add(inside)
        return found
