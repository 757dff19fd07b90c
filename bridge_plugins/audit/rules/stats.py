"""STATS: values that no weight should have, and tensors that should not be alike."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.columns import Columns
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import at, by_layer, count
from bridge_plugins.audit.place import OUTSIDE, place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.schema import Indices, Schema, joined
from bridge_plugins.audit.summary import Summary

#: How far the root mean square of a tensor may lie outside of that of all its neighbours. Real checkpoints have
#: biases and norms some hundred times larger in one layer than in the next.
FACTOR = 1000.0
#: Neighbours on either side that a tensor is compared with, and how many it needs.
NEIGHBOURS = 4
ENOUGH = 3
#: Tensors with fewer elements may be alike by chance.
FEW = 64


class Stats:
    """NaN and infinite elements; a tensor unlike the same tensor of every neighbouring layer; two tensors alike.

    Outliers and twins are warnings: no bits prove them wrong. A tensor counts as outlier if its root mean square is a
    thousand times all its neighbours', or a thousandth, or if it is all zeros and none of them is. Of two names
    with one fingerprint only those that no reason explains are told: constants, tied and replicated tensors, and
    twins that the checkpoint has too are left alone. Cannot see finite values that are wrong but ordinary.
    """

    code = "STATS"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        records, columns = summary.records, summary.columns
        for names in by_layer(columns.where(columns.nonfinite > 0)).values():
            bad = sum(records[name].nonfinite for name in names)
            of = "" if len(names) == 1 else f" of {count(names)}"
            yield Finding(
                self.code, at(names), f"{bad} elements{of} are NaN or infinite",
                "the optimizer diverged, or the tensor was read before it was written", names,
                expected="finite elements", found=f"{bad} of {sum(records[name].elements for name in names)}",
            )  # fmt: skip
        yield from self._outliers(summary)
        yield from self._twins(summary, context)

    def _outliers(self, summary: Summary) -> Iterator[Finding]:
        columns = summary.columns
        elements = columns.schema.elements
        judged = (elements > 0) & (columns.nonfinite == 0)
        scales = columns.norm / np.sqrt(np.maximum(elements, 1))
        odd: dict[str, list[str]] = defaultdict(list)
        for series in _uneven(columns.schema, scales, judged):
            members = series[judged[series]].tolist()
            for here, index in enumerate(members):
                near = members[max(0, here - NEIGHBOURS) : here] + members[here + 1 : here + 1 + NEIGHBOURS]
                if len(near) >= ENOUGH and (what := _outside(float(scales[index]), scales[near].tolist())):
                    odd[what].append(columns.schema.names[index])
        for what, names in odd.items():
            for layer, inside in by_layer(names).items():
                yield Finding(
                    self.code, layer, f"{count(inside, 'is', 'are')} {what}",
                    "look whether it was initialised, loaded and scaled once", inside, severity="warning",
                )  # fmt: skip

    def _twins(self, summary: Summary, context: Context) -> Iterator[Finding]:
        alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
        for name in _perhaps_twins(summary.columns):
            record = summary.records[name]
            if record.elements >= FEW and not _is_constant(record):
                alike[(record.lanes, record.dtype, record.shape)].append(name)
        pairs: dict[tuple[str, str], list[str]] = defaultdict(list)
        for names in alike.values():
            if len(names) > 1 and not _explained(names, context):
                first = place_of(names[0])
                for other in names[1:]:
                    place = place_of(other)
                    here = place.layer_name if place.layer != OUTSIDE else other
                    there = first.layer_name if first.layer != OUTSIDE else names[0]
                    if here == there and first.expert_number is not None:
                        there = f"expert {first.expert_number}"
                    pairs[(here, there)].append(other)
        for (here, there), names in pairs.items():
            yield Finding(
                self.code, here, f"{count(tuple(names), 'has', 'have')} the very bits of another tensor of {there}",
                "one of the two was written twice; right only if the model was made by copying layers or experts",
                tuple(names), severity="warning", expected="bits of its own", found=f"the bits of {there}",
            )  # fmt: skip


@lru_cache(maxsize=4)
def _series(schema: Schema) -> list[Indices]:
    """The same tensor of all layers of a stack, layer by layer."""
    series: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for index, place in enumerate(schema.places):
        if place.layer_number is not None:
            series[place.stack, place.inside].append((place.layer_number, index))
    return [np.array([index for _, index in sorted(members)]) for members in series.values()]


def _uneven(schema: Schema, scales: NDArray[np.float64], judged: NDArray[np.bool_]) -> Iterator[Indices]:
    """The series in which some tensor is much larger than some other."""
    series = _series(schema)
    if not series:
        return
    order, starts = joined(series)
    most = np.maximum.reduceat(np.where(judged, scales, 0)[order], starts)
    least = np.minimum.reduceat(np.where(judged, scales, np.inf)[order], starts)
    yield from (series[index] for index in np.flatnonzero(most > FACTOR * least))


def _perhaps_twins(columns: Columns) -> list[str]:
    """Names whose fingerprint another tensor shares in one lane."""
    _, number, times = np.unique(columns.lanes[:, 0], return_inverse=True, return_counts=True)
    return columns.where(times[number] > 1)


def _scale(record: Record) -> float:
    return record.norm / math.sqrt(record.elements)


def _outside(scale: float, around: list[float]) -> str:
    least, most = min(around), max(around)
    if scale == 0 and least > 0:
        return "all zeros, and in no neighbouring layer"
    if most > 0 and scale > FACTOR * most:
        return f"{FACTOR:g} times larger than in every neighbouring layer"
    if scale > 0 and scale * FACTOR < least:
        return f"{FACTOR:g} times smaller than in every neighbouring layer"
    return ""


def _is_constant(record: Record) -> bool:
    """Every element has one magnitude: zeros, ones, a fresh norm."""
    if record.zeros == record.elements:
        return True
    return math.isclose(_scale(record), record.absmax, rel_tol=1e-4)


def _explained(names: list[str], context: Context) -> bool:
    from bridge_plugins.audit.rules.set import is_tied_pair

    places = [place_of(name) for name in names]
    if len(names) == 2 and is_tied_pair(*names):
        return True
    if any("shared_head" in name or is_tied_copy(name) for name in names):
        return True
    reference = context.expected.records if context.expected else {}
    if all(name in reference for name in names):
        return len({reference[name].lanes for name in names}) == 1
    # Experts made from one dense layer (upcycling) are replicas until they are trained.
    experts = {(p.layer, p.inside.replace(f"experts.{p.expert_number}.", "experts.*.")) for p in places}
    return len(experts) == 1 and all(p.expert_number is not None for p in places)


def is_tied_copy(name: str) -> bool:
    """An embedding or output layer that a multi-token prediction layer carries a copy of."""
    return place_of(name).layer_number is not None and ("embed_tokens" in name or "shared_head" in name)
