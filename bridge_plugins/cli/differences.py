"""Two sources compared on a command line: found, and shown as a table or as JSON."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.markup import escape

from bridge_plugins.audit.causes.wording import ranges, tensors, where
from bridge_plugins.audit.comparison import Changed, Difference, compare
from bridge_plugins.audit.diagnosis import Cause, diagnose
from bridge_plugins.audit.sources.adapters import Adapters
from bridge_plugins.audit.sources.engine import EngineSource
from bridge_plugins.audit.sources.parse import parse
from bridge_plugins.audit.sources.source import Source
from bridge_plugins.audit.summary import Summary
from bridge_plugins.audit.table import title
from bridge_plugins.cli import show as shows
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


def find(expected: str, found: str, earlier: list[str], adapter: Path | None = None) -> Outcome:
    """Compare two sources, and explain what differs."""
    one, other = parse(expected), parse(found)
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
    versions = (
        {_label(source, summary): summary.records for source, summary in _read(earlier)} if wrong else {}
    )
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


def _read(texts: list[str]) -> Iterator[tuple[str, Summary]]:
    for text in texts:
        yield text, sources.read(text)


def _label(source: str, summary: Summary) -> str:
    return f"version {summary.header.version}" if summary.header.version else source


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


def show(outcome: Outcome, *, names: bool = False, json: bool = False) -> None:
    """Print an outcome."""
    if json:
        shows.as_json(_as_json(outcome))
        return
    console = shows.console()
    console.print(f"A  {title(outcome.a)}", f"B  {title(outcome.b)}", sep="\n", highlight=False, markup=False)
    if outcome.difference:
        _show_layers(console, outcome)
    if names:
        _show_names(console, outcome.difference)
    for kind, listed in (
        ("missing", outcome.difference.missing),
        ("unexpected", outcome.difference.unexpected),
    ):
        if listed:
            said = tensors(listed).removesuffix(" is").removesuffix(" are")
            _line(console, kind, f"{where(listed)}: {said}")
    for cause in outcome.causes:
        _line(console, "cause", str(cause))
    for name, why in list(outcome.not_compared.items())[:_SHOWN]:
        _line(console, "not compared", f"{name}: {why}")
    _line(
        console,
        "equal" if outcome.equal else "differ",
        _verdict(outcome),
        "green" if outcome.equal else "red",
    )


_SHOWN = 5


def _verdict(outcome: Outcome) -> str:
    difference, versions = outcome.difference, (outcome.a.header.version, outcome.b.header.version)
    if outcome.equal:
        since = (
            f": nothing changed since version {versions[0]}"
            if all(versions) and len(set(versions)) > 1
            else ""
        )
        return f"{difference.equal:,} tensors, digest {outcome.a.digest}{since}"
    counts = {
        "changed": len(difference.changed),
        "missing": len(difference.missing),
        "unexpected": len(difference.unexpected),
        "equal": difference.equal,
        "not compared": len(outcome.not_compared),
    }
    said = ", ".join(f"{count:,} {what}" for what, count in counts.items() if count or what == "equal")
    return f"{said}; the first difference is in {_first(outcome)}" if difference else said


def _first(outcome: Outcome) -> str:
    layers = outcome.difference.layers(outcome.a)
    return layers[0].name if layers else ""


def _show_layers(console: Console, outcome: Outcome) -> None:
    table = shows.table("", "layer", "tensors", "changed", "missing", "unexpected", "experts", "distance")
    table.title = None
    for column in table.columns[1:5]:
        column.justify = "right"
    for layer in outcome.difference.layers(outcome.a):
        counts = (layer.changed, layer.missing, layer.unexpected)
        table.add_row(
            layer.name,
            str(layer.tensors),
            *(str(count) if count else "" for count in counts),
            ranges(layer.experts),
            "" if layer.distance is None else f"{layer.distance:.3g}",
        )
    console.print(table)


def _show_names(console: Console, difference: Difference) -> None:
    for changed in difference.changed:
        _line(console, "changed", str(changed))
    for name in difference.missing:
        _line(console, "missing", name)
    for name in difference.unexpected:
        _line(console, "unexpected", name)


def _line(console: Console, what: str, said: str, style: str = "red") -> None:
    console.print(f"[{style}]{what:12}[/{style}] {escape(said)}", highlight=False, soft_wrap=True)


def _as_json(outcome: Outcome) -> dict[str, object]:
    difference = outcome.difference
    changed = [
        msgspec.structs.replace(c, distance=None)
        if c.distance is not None and not math.isfinite(c.distance)
        else c
        for c in difference.changed
    ]
    return {
        "a": outcome.a.header,
        "b": outcome.b.header,
        "equal": difference.equal,
        "first": _first(outcome),
        "layers": difference.layers(outcome.a),
        "missing": difference.missing,
        "unexpected": difference.unexpected,
        "changed": changed,
        "not_compared": outcome.not_compared,
        "causes": outcome.causes,
    }
