"""Whole tensors in another's place: found by looking fingerprints up in the reference."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.numbers import renumbered
from bridge_plugins.audit.causes.siblings import siblings
from bridge_plugins.audit.causes.wording import kind, layers, leaves, stack_of, tensors, where
from bridge_plugins.audit.place import Place, place_of
from bridge_plugins.audit.record import Record

_SHOWN = 3
Source = dict[int, int]
Alike = tuple[str, frozenset[tuple[int, int]]]


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


class Moves:
    """The tensors that hold another's bits (`owner`), told in as few sentences as say it all."""

    def __init__(self, owner: Mapping[str, str], reference: Mapping[str, Record]) -> None:
        self._owner = owner
        self._reference = reference
        self._here = {name: place_of(name) for name in owner}
        self._there = {name: place_of(other) for name, other in owner.items()}

    def causes(self) -> Iterator[Cause]:
        """One cause a sentence."""
        relations: dict[str, list[str]] = defaultdict(list)
        for name, here in self._here.items():
            relations[_relation(here, self._there[name])].append(name)
        yield from self._layers(relations["layer"])
        yield from self._experts(relations["expert"])
        yield from siblings(relations["sibling"], self._owner)
        yield from self._others(relations["other"])

    def _layers(self, names: Iterable[str]) -> Iterator[Cause]:
        """Layers by number, for all tensors of a stack that moved alike."""
        moved: dict[tuple[str, str], Source] = defaultdict(dict)
        for name in names:
            here = self._here[name]
            there = self._there[name].layer_number
            assert here.layer_number is not None
            assert there is not None
            moved[stack_of(here), here.inside][here.layer_number] = there
        for (stack, source), insides in self._joined(_alike(moved)).items():
            total = len(self._numbers[stack])
            for told in renumbered(dict(source), total, _noun(stack)):
                wrong = (f"{stack}.{number}.{inside}" for number in told.numbers for inside in insides)
                explained = tuple(name for name in wrong if name in self._here)
                alone = "" if self._whole(stack, dict(source), told.numbers, insides) else _alone(explained)
                yield Cause(told.subject, told.predicate + alone, explained)

    def _joined(self, alike: Mapping[Alike, list[str]]) -> dict[Alike, list[str]]:
        """Join a tensor that moved with a larger move where it only seems to have stayed: two layers hold equal
        bits of it.
        """
        joined: dict[Alike, list[str]] = {}
        for (stack, source), insides in sorted(alike.items(), key=lambda pair: -len(pair[0][1])):
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
        records = self._reference
        return one in records and other in records and bits(records[one]) == bits(records[other])

    def _experts(self, names: Iterable[str]) -> Iterator[Cause]:
        """Experts by number, for all layers where they moved alike."""
        moved: dict[tuple[str, str], Source] = defaultdict(dict)  # by layer, kind
        members: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name in names:
            here, there = self._here[name], self._there[name].expert_number
            assert here.expert_number is not None
            assert there is not None
            moved[here.layer, kind(here)][here.expert_number] = there
            members[here.layer, kind(here)].append(name)
        per_layer = defaultdict(list)
        for (layer, source), kinds in _alike(moved).items():
            per_layer[source, tuple(sorted(kinds))].append(layer)
        for (source, kinds_moved), at in per_layer.items():
            explained = [name for layer in at for a_kind in kinds_moved for name in members[layer, a_kind]]
            total = max(len(self._experts_of[layer]) for layer in at)
            whole = all(set().union(*self._experts_of[layer].values()) == set(kinds_moved) for layer in at)
            for told in renumbered(dict(source), total, "expert"):
                these = tuple(
                    name for name in explained if self._here[name].expert_number in set(told.numbers)
                )
                alone = "" if whole else _alone(these)
                yield Cause(_layers_of(these), f"{told.subject} {told.predicate}{alone}", these)

    def _others(self, names: list[str]) -> Iterator[Cause]:
        if len(names) <= _SHOWN:
            for name in names:
                yield Cause(str(self._here[name]), f"holds the bits of {self._owner[name]}", (name,))
        else:
            first = names[0]
            what = f"{tensors(names)} other tensors' bits ({first} has those of {self._owner[first]}, …)"
            yield Cause(where(names), what.replace(" are ", " hold ", 1), tuple(names))

    @cached_property
    def _numbers(self) -> dict[str, dict[int, set[str]]]:
        """stack → layer number → names inside."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name in self._reference:
            place = place_of(name)
            if place.layer_number is not None:
                found[stack_of(place)][place.layer_number].add(place.inside)
        return found

    @cached_property
    def _experts_of(self) -> dict[str, dict[int, set[str]]]:
        """layer → expert number → kinds of tensors."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name in self._reference:
            place = place_of(name)
            if place.expert_number is not None:
                found[place.layer][place.expert_number].add(kind(place))
        return found


def _relation(here: Place, there: Place) -> str:
    if here.layer_number is None or stack_of(here) != stack_of(there):
        return "other"
    if here.inside == there.inside:
        return "layer"
    if here.layer != there.layer:
        return "other"
    if here.expert_number == there.expert_number:
        return "sibling"
    return "expert" if kind(here) == kind(there) else "other"


def _alike(
    moved: Mapping[tuple[str, str], Source],
) -> dict[tuple[str, frozenset[tuple[int, int]]], list[str]]:
    """(first key, the mapping) → the second keys that have it."""
    grouped: dict[Alike, list[str]] = defaultdict(list)
    for (first, second), source in moved.items():
        grouped[first, frozenset(source.items())].append(second)
    return grouped


def _noun(stack: str) -> str:
    return layers(stack, [0]).removesuffix(" 0")


def _layers_of(names: Iterable[str]) -> str:
    """The layers alone, without the experts."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        place = place_of(name)
        assert place.layer_number is not None
        numbers[stack_of(place)].add(place.layer_number)
    return "; ".join(layers(stack, members) for stack, members in numbers.items())


def _alone(names: Iterable[str]) -> str:
    return f" ({leaves(names)} alone)"
