"""Two summaries held against each other: what is missing, unexpected, changed, and where it begins."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from bridge_plugins.audit.causes.lookup import bits
from bridge_plugins.audit.place import OUTSIDE, place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rows import place_name
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint import Digest


class Changed(msgspec.Struct, frozen=True):
    """A tensor that differs. `distance` is ‖found - expected‖ / ‖expected‖, where both were at hand."""

    name: str
    expected: Record
    found: Record
    distance: float | None = None

    def __str__(self) -> str:
        apart = "" if self.distance is None else f" (distance {self.distance:.3g})"
        one, other = (self.expected.dtype, self.expected.shape), (self.found.dtype, self.found.shape)
        if one == other:
            return f"{self.name}: {Digest(self.expected.lanes)} in A, {Digest(self.found.lanes)} in B{apart}"
        return f"{self.name}: {one[0]} {list(one[1])} in A, {other[0]} {list(other[1])} in B{apart}"


class LayerDifference(msgspec.Struct, frozen=True):
    """A layer that differs: how many of its `tensors` do, and the numbers of the experts among them."""

    name: str
    tensors: int
    changed: int
    missing: int
    unexpected: int
    experts: tuple[int, ...]
    distance: float | None = None


class Difference(msgspec.Struct, frozen=True):
    """What one summary (found) has otherwise than another (expected). Names are in model order."""

    equal: int
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    changed: tuple[Changed, ...]

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.changed)

    @property
    def first(self) -> str:
        """The first layer that differs in model order; empty if none does."""
        changed = (one.name for one in self.changed[:1])
        layers = [place_of(name).layer for name in (*self.missing[:1], *self.unexpected[:1], *changed)]
        return place_name(min(layers, key=model_order)) if layers else ""

    @property
    def names(self) -> list[str]:
        """Every name that differs."""
        return [*self.missing, *self.unexpected, *(changed.name for changed in self.changed)]

    def layers(self, expected: Summary) -> list[LayerDifference]:
        """The layers that differ, in model order."""
        whole = {layer.name: layer.tensors for layer in expected.layers}
        changed = _count(one.name for one in self.changed)
        missing, unexpected = _count(self.missing), _count(self.unexpected)
        distances: dict[str, list[float]] = defaultdict(list)
        experts: dict[str, set[int]] = defaultdict(set)
        for place in map(place_of, self.names):
            these = experts[place.layer]
            if place.expert_number is not None:
                these.add(place.expert_number)
        for one in self.changed:
            if one.distance is not None:
                distances[place_of(one.name).layer].append(one.distance)
        return [
            LayerDifference(
                place_name(layer), whole.get(layer, 0), changed[layer], missing[layer], unexpected[layer],
                tuple(sorted(experts[layer])), max(distances[layer], default=None),
            )
            for layer in sorted(experts, key=model_order)
        ]  # fmt: skip


def model_order(layer: str) -> tuple[object, ...]:
    """A key that sorts the layers of a summary."""
    return () if layer == OUTSIDE else place_of(f"{layer}.x").sort_key


def compare(expected: Summary, found: Summary) -> Difference:
    """Hold `found` against `expected`. What a partial summary lacks is neither missing nor unexpected.

    Raises `UsageError` if the two can't be compared: of different models, or without records, or fingerprinted
    otherwise.
    """
    _check(expected, found)
    before, after = expected.records, found.records
    order = _Order(expected, found)
    changed = [name for name, record in before.items() if name in after and bits(record) != bits(after[name])]
    missing = () if found.header.partial else before.keys() - after.keys()
    unexpected = () if expected.header.partial else after.keys() - before.keys()
    return Difference(
        equal=len(before.keys() & after.keys()) - len(changed),
        missing=tuple(sorted(missing, key=order)),
        unexpected=tuple(sorted(unexpected, key=order)),
        changed=tuple(Changed(name, before[name], after[name]) for name in sorted(changed, key=order)),
    )


def _check(expected: Summary, found: Summary) -> None:
    for summary in (expected, found):
        if not summary.records:
            raise UsageError(
                f"the summary of rank {summary.header.rank} (version {summary.header.version or '?'}) has no records "
                "of tensors; name the folder with all ranks' files"
            )
    if expected.header.fingerprint != found.header.fingerprint:
        versions = f"{expected.header.fingerprint} and {found.header.fingerprint}"
        raise UsageError(f"fingerprints of versions {versions} can't be compared; write both summaries anew")
    common = [name for name in expected.records if name in found.records]
    if not common:
        one, other = next(iter(expected.records)), next(iter(found.records))
        raise UsageError(
            f"these are different models: no name in common, {one} in one and {other} in the other"
        )
    if all(expected.records[name].elements != found.records[name].elements for name in common):
        name = common[0]
        raise UsageError(
            f"these are different models: {name} is {list(expected.records[name].shape)} in one and "
            f"{list(found.records[name].shape)} in the other, and no tensor has the same size in both"
        )


class _Order:
    """Model order of names: by layer, as the summaries have them, then by expert."""

    def __init__(self, *summaries: Summary) -> None:
        layers = {layer.name for summary in summaries for layer in summary.layers}
        ordered = sorted(layers, key=model_order)
        self._layers = {layer: index for index, layer in enumerate(ordered)}

    def __call__(self, name: str) -> tuple[int, int, str]:
        place = place_of(name)
        return self._layers[place.layer], -1 if place.expert_number is None else place.expert_number, name


def _count(names: Iterable[str]) -> Mapping[str, int]:
    return Counter(place_of(name).layer for name in names)
