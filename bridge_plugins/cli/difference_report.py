"""What two sources differ in, on a terminal and as JSON."""

from __future__ import annotations

import math

import msgspec
from rich.console import Console
from rich.markup import escape

from bridge_plugins.audit.causes.wording import ranges, tensors, where
from bridge_plugins.audit.comparison import Difference
from bridge_plugins.audit.table import title
from bridge_plugins.cli import show as shows
from bridge_plugins.cli.differences import Outcome

_SHOWN = 5  #: reasons why something was not compared; all of them are in the JSON


def show(outcome: Outcome, *, names: bool = False, json: bool = False) -> None:
    """Print an outcome."""
    if json:
        shows.as_json(_as_json(outcome))
        return
    console = shows.console()
    sides = f"A  {title(outcome.a)}\nB  {title(outcome.b)}"
    console.print(sides, highlight=False, markup=False, soft_wrap=True)  # a table would fold it
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
    word = "equal" if outcome.equal else "differ" if outcome.difference else "not compared"
    _line(console, word, _verdict(outcome), "green" if outcome.equal else "red")


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
    return f"{said}; the first difference is in {difference.first}" if difference else said


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
        "first": outcome.difference.first,
        "layers": difference.layers(outcome.a),
        "missing": difference.missing,
        "unexpected": difference.unexpected,
        "changed": changed,
        "not_compared": outcome.not_compared,
        "causes": outcome.causes,
    }
