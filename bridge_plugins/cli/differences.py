"""Two sources compared on a command line, with what happened between them."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridge_plugins.audit.comparison import Changed, Difference, compare
from bridge_plugins.audit.diagnosis import Cause, diagnose
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.sources.adapters import Adapters
from bridge_plugins.audit.sources.engine import EngineSource
from bridge_plugins.audit.sources.parse import parse
from bridge_plugins.audit.sources.source import Source
from bridge_plugins.audit.summary import Summary
from bridge_plugins.cli import sources
from bridge_plugins.cli.progress import reading

if TYPE_CHECKING:
    from torch import Tensor


class Outcome(msgspec.Struct, frozen=True):
    """A comparison with its causes. `not_compared` says by name what could not be compared, and why."""

    a: Summary
    b: Summary
    difference: Difference
    causes: list[Cause]
    not_compared: dict[str, str]

    @property
    def equal(self) -> bool:
        """Everything was compared and is equal."""
        return not self.difference and not self.not_compared


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    """No garbage collection: tens of thousands of records are no garbage, and looking at them takes a fifth of the
    time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def find(expected: str, found: str, earlier: list[str], adapter: Path | None = None) -> Outcome:
    """Compare two sources, and explain what differs."""
    one, other = parse(expected), parse(found)
    olds = [parse(text) for text in earlier]  # also where nothing differs, and none of them is read
    adapters = Adapters.read(adapter) if adapter else None
    not_compared: dict[str, str] = {}
    if isinstance(one, EngineSource):  # an engine is asked for what the other side has
        after = sources.read(other)
        before, not_compared = one.served(after)
    else:
        before = sources.read(one)
        after, not_compared = (
            other.served(before) if isinstance(other, EngineSource) else (sources.read(other), {})
        )
    nothing = not_compared and not (before.records and after.records)
    difference = Difference(0, (), (), ()) if nothing else compare(before, after)
    skipped = set(not_compared)
    difference = msgspec.structs.replace(
        difference,
        missing=tuple(name for name in difference.missing if name not in skipped),
        unexpected=tuple(name for name in difference.unexpected if name not in skipped),
        changed=_with_distances(difference, one, other, before),
    )
    wrong = {changed.name: after.records[changed.name] for changed in difference.changed}
    versions = dict(map(_version, olds)) if wrong else {}
    causes = diagnose(
        wrong,
        before.records,
        earlier=versions,
        found=_tensors(other, wrong),
        expected=_tensors(one, wrong),
        adapters=adapters.delta if adapters else None,
    )
    return Outcome(before, after, difference, causes, not_compared)


def _tensors(source: Source, names: Iterable[str]) -> Callable[[str], Tensor | None] | None:
    """A source's tensors by name, if it has any of them at hand."""
    if not any(source.has(name) for name in names):
        return None
    return lambda name: source.tensor(name) if source.has(name) else None


def _version(source: Source) -> tuple[str, Mapping[str, Record]]:
    """What a source of an earlier version is called, and its records."""
    summary = sources.read(source)
    return f"version {summary.header.version}" if summary.header.version else str(source), summary.records


def _with_distances(
    difference: Difference, one: Source, other: Source, before: Summary
) -> tuple[Changed, ...]:
    """The changed tensors with how far apart they are, where both are at hand in one shape."""
    same = {
        c.name
        for c in difference.changed
        if c.expected.shape == c.found.shape and one.has(c.name) and other.has(c.name)
    }
    if not same:
        return difference.changed
    from bridge_plugins.audit.distance import distance

    measured: dict[str, float] = {}
    with reading("how far apart", sum(before.records[name].nbytes for name in same)) as progress:
        for name in sorted(same):
            measured[name] = distance(one.pieces(name), other.pieces(name))
            progress(before.records[name].nbytes)
    return tuple(msgspec.structs.replace(c, distance=measured.get(c.name)) for c in difference.changed)
