"""Sources on a command line: read with a progress bar, shown as a table, as JSON or as CSV."""

from __future__ import annotations

import csv as comma_separated
import sys
from pathlib import Path

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.rows import rows
from bridge_plugins.audit.sources.parse import parse
from bridge_plugins.audit.sources.source import Source
from bridge_plugins.audit.summary import Summary
from bridge_plugins.cli.progress import reading
from bridge_plugins.errors import UsageError


def read(source: str | Source) -> Summary:
    """The summary of a source."""
    parsed = parse(source) if isinstance(source, str) else source
    with reading(str(parsed), parsed.nbytes) as progress:
        return parsed.summary(progress)


def write(summary: Summary, path: Path) -> None:
    """Write a summary to `path`. Raises `UsageError` if that can't be done."""
    try:
        summary.write(path)
    except OSError as error:
        raise UsageError(f"{path} can't be written: {error.strerror}") from error


def findings(summary: Summary) -> list[Finding]:
    """What is wrong with the summary in itself: what its audit found, and values that are not finite."""
    found = [finding for finding in summary.findings if finding.severity != "info"]
    known = {name for finding in found for name in finding.names}
    if any(layer.nonfinite for layer in summary.layers):
        bad = [record for record in summary.records.values() if record.nonfinite and record.name not in known]
        found += [
            Finding(
                "STATS",
                record.name,
                f"{record.nonfinite:,} elements are NaN or infinite",
                names=(record.name,),
            )
            for record in bad
        ]
    return found


def show(
    summary: Summary,
    *,
    layer: int | None = None,
    expert: int | None = None,
    names: bool = False,
    json: bool = False,
    csv: bool = False,
) -> None:
    """Print a summary's rows (see `audit.rows`) and findings."""
    if json and csv:
        raise UsageError("--json and --csv exclude each other; give one")
    shown = rows(summary, layer=layer, expert=expert, names=names)
    if csv:
        writer = comma_separated.writer(sys.stdout)
        writer.writerow([*msgspec.structs.asdict(shown[0])] if shown else [])
        for row in shown:
            *values, shape = msgspec.structs.astuple(row)
            writer.writerow([*values, "x".join(map(str, shape))])
        return
    from bridge_plugins.cli import show as shows

    if json:
        shows.as_json(
            {"header": summary.header, "digest": summary.digest, "rows": shown, "findings": findings(summary)}
        )
        return
    from bridge_plugins.audit.table import row_table, title

    console = shows.console()
    console.print(title(summary), highlight=False, markup=False, soft_wrap=True)  # a table would fold it
    console.print(row_table(shown, width=console.width))
    if summary.header.partial:
        console.print(
            f"[yellow]note[/yellow]: this is a part of the model: {summary.header.partial}", highlight=False
        )
    shows.findings(console, findings(summary))
