"""``bridge-audit diff``: two sources held against each other, and what happened between them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.cli import exits
from bridge_plugins.cli.commands.summary import SOURCE


def diff(
    expected: Annotated[str, typer.Argument(metavar="A", help=f"What should be there. {SOURCE}")],
    found: Annotated[str, typer.Argument(metavar="B", help="What is there: a source as well.")],
    earlier: Annotated[
        list[str] | None,
        typer.Option(help="A source of an earlier version, to be recognised in B. Repeat it."),
    ] = None,
    adapter: Annotated[
        Path | None,
        typer.Option(help="A folder of LoRA adapters (PEFT's format), to tell how often they were merged."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="A line for each tensor that differs.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare two sources: missing, unexpected and changed tensors by layer and expert, how far apart they are, and
    what happened, one sentence for each cause. Exit 0 if they are equal, 1 if not.
    """
    from bridge_plugins.cli import difference_report, differences

    with differences.without_collector():
        outcome = differences.find(expected, found, earlier or [], adapter)
    difference_report.show(outcome, names=names, json=json)
    raise typer.Exit(exits.CONSISTENT if outcome.equal else exits.FINDINGS)
