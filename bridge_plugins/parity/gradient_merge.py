"""Adds up what ranks tell of their gradients, and says what is wrong. No torch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from bridge_plugins.audit.finding import Finding
from bridge_plugins.names.param_name import ParamName
from bridge_plugins.parity.families import Group, group_of
from bridge_plugins.parity.gradient_counts import Counts, Gradients, Row, Told

_Names = dict[str, list[int]]


class Merge:
    """Takes one rank's word at a time, or that of several which say the same."""

    def __init__(self) -> None:
        self._counts: defaultdict[Group, Counts] = defaultdict(Counts)
        self._missing: _Names = defaultdict(list)
        self._nonfinite: _Names = defaultdict(list)

    def add(self, told: Told, ranks: tuple[int, ...]) -> None:
        """`told` by each of `ranks`."""
        for layer, families in told.groups.items():
            for family, counts in families.items():
                self._counts[Group(layer, family)] += counts.times(len(ranks))
        for names, where in ((told.missing, self._missing), (told.nonfinite, self._nonfinite)):
            for name in names:
                where[name] += ranks

    def gradients(self, step: str) -> Gradients:
        """All of it."""
        groups = sorted(self._counts, key=lambda group: group.sort_key)
        rows = [Row(*group, self._counts[group]) for group in groups]
        return Gradients(step, tuple(rows), (*self._not_finite(rows), *self._not_there(rows), *_silent(rows)))

    def _not_finite(self, rows: Sequence[Row]) -> Iterator[Finding]:
        step = "an optimizer step would spread it over the parameter: skip this one"
        for where, who, ranks in _hit(rows, "nonfinite", self._nonfinite):
            yield Finding("GRAD", where, f"NaN or Inf in the gradient of {who}", step, ranks=ranks)

    def _not_there(self, rows: Sequence[Row]) -> Iterator[Finding]:
        step = "the loss doesn't depend on it, or its gradient went elsewhere"
        for where, who, ranks in _hit(rows, "missing", self._missing):
            yield Finding("GRAD", where, f"no gradient of {who}", step, ranks=ranks, severity="warning")


def _hit(rows: Sequence[Row], kind: str, names: _Names) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """For each row with such parameters: where it is, which ones they are, and on which ranks."""
    by_group: defaultdict[Group, list[str]] = defaultdict(list)
    for name in sorted(names):
        by_group[group_of(ParamName.parse(name))].append(name)
    for row in rows:
        if count := getattr(row.counts, kind):
            # A rank names a few parameters only: of the others there are numbers.
            named = by_group[Group(row.layer, row.family)]
            who = named[0] if len(named) == 1 else f"{count} tensors{f' ({named[0]}, …)' if named else ''}"
            experts = {ParamName.parse(name).expert for name in named}
            one = len(experts) == 1 and experts != {None}
            where = f"{row.layer} expert {experts.pop()}" if one else f"{row.layer} {row.family}"
            yield where, who, tuple(sorted({rank for name in named for rank in names[name]}))


def _silent(rows: Sequence[Row]) -> Iterator[Finding]:
    """Layers, else families of one, that learn nothing. An expert without tokens is nothing of the kind."""
    layers: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        layers[row.layer].append(row)
    for layer, members in layers.items():
        silent = [row for row in members if row.counts.silent]
        whole = silent and sum((row.counts for row in members), Counts()).silent
        for where in [layer] if whole else [f"{layer} {row.family}" for row in silent]:
            step = "is the path from here to the loss cut, or were gradients cleared?"
            yield Finding("GRAD", where, "every gradient is zero", step, severity="warning")
