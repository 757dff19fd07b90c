"""A preflight's report on a terminal: the map (stages × layers, ranks × experts), and what is wrong."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bridge_plugins.cli.show import table
from bridge_plugins.errors import UsageError

if TYPE_CHECKING:
    from bridge_plugins.names.preflight.report import Report

SHOWN = 12  #: findings that are printed; all of them are in the JSON


def show(report: Report) -> None:
    """Print the report."""
    console = Console()
    console.print(f"{report.family} at {report.topology}  ({report.bridge})", highlight=False)
    stages = table("stages", "PP", "chunk", "decoder layers", "and")
    for stage in report.stages:
        stages.add_row(str(stage.stage), str(stage.chunk), ranges(stage.layers), ", ".join(stage.others))
    console.print(stages)
    if report.experts:
        experts = table("experts", "EP", "experts")
        for rank in report.experts:
            experts.add_row(str(rank.ep), ranges(rank.experts))
        console.print(experts)
    for note in report.notes:
        console.print(f"[yellow]note[/yellow]: {note}", highlight=False)
    if report.findings:
        found = table("findings", "kind", "name", "where", "what")
        for finding in report.findings[:SHOWN]:
            cells = (finding.kind, finding.name, finding.where, finding.detail)
            found.add_row(*map(Text, cells))  # a name in [brackets] is no markup
        console.print(found)
        if len(report.findings) > SHOWN:
            console.print(f"and {len(report.findings) - SHOWN} more; --json has them all")
    verdict = "consistent" if report.consistent else f"[red]{len(report.findings)} findings[/red]"
    console.print(
        f"{verdict}: {report.parameters} Megatron names, {report.hf_tensors} tensors of {report.expected_from}",
        highlight=False,
    )


def ranges(numbers: Sequence[int]) -> str:
    """``[0, 1, 2, 5]`` as ``0-2, 5``."""
    parts = []
    for _, run in itertools.groupby(enumerate(sorted(numbers)), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ", ".join(parts)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """``3,4,4,3`` as numbers; empty text as none. Raises `UsageError` naming the option."""
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError as error:
        raise UsageError(f"{option} {text!r} is no list of numbers; write {option} 3,4,4,3") from error
