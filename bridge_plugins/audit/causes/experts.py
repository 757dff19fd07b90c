"""Experts that carry the weights of other experts of their layer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from bridge_plugins.audit.causes.alike import Source, alike, alone
from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.numbers import renumbered
from bridge_plugins.audit.causes.wording import kind, layers
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record


@dataclass(frozen=True)
class ExpertMoves:
    """Tensors that hold the bits of another expert's tensor of their kind: name → that tensor (`owner`)."""

    owner: Mapping[str, str]
    reference: Mapping[str, Record]

    def causes(self) -> Iterator[Cause]:
        """Experts by number, for all layers where they moved alike."""
        moved: dict[tuple[str, str], Source] = defaultdict(dict)  # by layer, kind
        members: dict[tuple[str, str], list[str]] = defaultdict(list)
        for name, other in self.owner.items():
            here, there = place_of(name), place_of(other).expert_number
            assert here.expert_number is not None
            assert there is not None
            moved[here.layer, kind(here)][here.expert_number] = there
            members[here.layer, kind(here)].append(name)
        per_layer = defaultdict(list)
        for (layer, source), kinds in alike(moved).items():
            per_layer[source, tuple(sorted(kinds))].append(layer)
        for (source, kinds_moved), at in per_layer.items():
            explained = [name for layer in at for a_kind in kinds_moved for name in members[layer, a_kind]]
            total = max(len(self._experts_of[layer]) for layer in at)
            whole = all(set().union(*self._experts_of[layer].values()) == set(kinds_moved) for layer in at)
            for told in renumbered(dict(source), total, "expert"):
                these = tuple(name for name in explained if place_of(name).expert_number in set(told.numbers))
                suffix = "" if whole else alone(these)
                yield Cause(_layers_of(these), f"{told.subject} {told.predicate}{suffix}", these)

    @cached_property
    def _experts_of(self) -> dict[str, dict[int, set[str]]]:
        """layer → expert number → kinds of tensors."""
        found: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
        layers_moved = {place_of(name).layer for name in self.owner}
        for name in self.reference:
            place = place_of(name)
            if place.expert_number is not None and place.layer in layers_moved:
                found[place.layer][place.expert_number].add(kind(place))
        return found


def _layers_of(names: Iterable[str]) -> str:
    """The layers alone, without the experts."""
    numbers: dict[str, set[int]] = defaultdict(set)
    for name in names:
        place = place_of(name)
        assert place.layer_number is not None
        numbers[place.stack].add(place.layer_number)
    return "; ".join(layers(stack, members) for stack, members in numbers.items())
