"""How values are shown on a terminal, and as JSON."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import rich.box
import rich.markup
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from bridge_plugins.audit.finding import Finding
    from bridge_plugins.doctor.report import PluginReport, Report

_STYLES = {"applied": "green", "failed": "red", "refused": "red", "waiting": "yellow"}


def as_json(value: Any) -> None:
    """Print `value` as indented JSON on stdout."""
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")


def console() -> Console:
    """stdout, with colour only on a terminal, and no narrower than a table where it is none."""
    made = Console()
    return made if made.is_terminal else Console(width=shutil.get_terminal_size((120, 24)).columns)


def findings(console: Console, found: Sequence[Finding], shown: int = 20) -> None:
    """Print findings, one a line."""
    for finding in found[:shown]:
        console.print(
            f"[red]finding[/red]    {rich.markup.escape(str(finding))}", highlight=False, soft_wrap=True
        )
    if len(found) > shown:
        console.print(f"and {len(found) - shown} more findings; --json has them all", highlight=False)


@contextlib.contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """A spinner on stderr while something takes its time, and a call that says what it is at now.

    Nothing is shown where stderr is no terminal.
    """
    console = Console(file=os.fdopen(os.dup(2), "w"))  # what `quiet` silences is file descriptor 2
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(what) as status:
        yield lambda now: status.update(f"{what}: {now}")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silence what imported packages warn about, C++ included; an error of this project is printed
    afterwards.
    """
    disabled = logging.root.manager.disable
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    logging.disable(logging.WARNING)
    os.dup2(nowhere, 2)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def table(title: str, *columns: str) -> Table:
    """An empty table in the house's looks."""
    made = Table(title=title, title_justify="left", box=rich.box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    return made


def plugins(found: Sequence[PluginReport]) -> None:
    """Print a table of plugins."""
    made = table("plugins", "name", "hooks", "from", "left out")
    for plugin in found:
        made.add_row(plugin.name, ", ".join(plugin.hooks), plugin.where, plugin.left_out)
    Console().print(made)


def report(report: Report) -> None:
    """Print the doctor's report."""
    console = Console()
    console.print(f"python  {report.python}", highlight=False)
    for package, version in report.versions.items():
        console.print(f"{package}  {version}", highlight=False)
    console.print(f"autoload  {'on' if report.autoload else 'off'}\n", highlight=False)
    plugins(report.plugins)
    patches = table("patches", "name", "state", "target", "mends", "reason")
    for patch in report.patches:
        style = _STYLES.get(patch.state, "")
        patches.add_row(
            patch.name,
            f"[{style}]{patch.state}" if style else patch.state,
            patch.target,
            patch.mends,
            patch.reason,
        )
    console.print(patches)
    pins = table("trainer and engine in one environment", "package", "asks", "installed", "fits")
    for pin in report.pins:
        pins.add_row(pin.package, f"{pin.of}{pin.asks}", pin.installed, "yes" if pin.fits else "[red]no")
    console.print(pins)
    for bypass in report.bypasses:
        console.print(
            f"[red]{bypass.framework} bypasses the bridge[/red]: {bypass.setting} in {bypass.where}; "
            f"set {bypass.remedy}",
            highlight=False,
        )
    for note in report.notes:
        console.print(f"[yellow]note[/yellow]: {note}", highlight=False)
    console.print("healthy" if report.healthy else "[red]not healthy", highlight=False)
