"""``bridge-audit show``: a source's layers, experts or tensors on the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge_plugins.cli import exits
from bridge_plugins.cli.commands.summary import SOURCE


def show(
    source: Annotated[str, typer.Argument(help=SOURCE)],
    layer: Annotated[
        int | None, typer.Option(help="Only this layer: a row for each expert and tensor.")
    ] = None,
    expert: Annotated[int | None, typer.Option(help="Only this expert, of each layer.")] = None,
    names: Annotated[bool, typer.Option("--names", help="A row for each tensor.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
) -> None:
    """Show a source with one row per layer: parameters, bytes, norm, largest magnitude, digest, and marks where
    values are not finite. Exit 1 as `summary` does.
    """
    from bridge_plugins.cli import sources

    found = sources.read(source)
    sources.show(found, layer=layer, expert=expert, names=names, json=json, csv=csv)
    raise typer.Exit(exits.FINDINGS if sources.findings(found) else exits.CONSISTENT)
