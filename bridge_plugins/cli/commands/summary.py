"""``bridge-audit summary``: records of every tensor of a source, rolled up by layer, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.cli import exits

SOURCE = "An HF folder, a summary file, a folder of several ranks' summaries, or an engine's URL."


def summary(
    source: Annotated[str, typer.Argument(help=SOURCE)],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the summary here.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Fingerprint every tensor of a source and roll the records up by layer. Exit 1 if values are not finite,
    or if the audit that wrote the summary had findings.
    """
    from bridge_plugins.cli import sources

    found = sources.read(source)
    if output is not None:
        sources.write(found, output)
    sources.show(found, json=json)
    if output is not None and not json:
        typer.echo(f"wrote {output}: digest {found.digest}")
    raise typer.Exit(exits.FINDINGS if sources.findings(found) else exits.CONSISTENT)
