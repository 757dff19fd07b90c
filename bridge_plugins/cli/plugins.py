"""``bridge-plugins``: what is installed, what became of it, and programs run with the plugins loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bridge_plugins.cli import exits
from bridge_plugins.cli.commands.convert import convert

app = typer.Typer(
    help="Plugins and patches for Megatron Bridge.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

app.command()(convert)


@app.command("list")
def list_plugins(json: Json = False) -> None:
    """List the plugins found here and the hooks they implement, without importing Megatron Bridge."""
    from bridge_plugins import plugins
    from bridge_plugins.cli import show
    from bridge_plugins.doctor.report import PluginReport

    plugins.load()
    found = [
        PluginReport(o.name, o.where, [] if o.left_out else plugins.hooks_of(o.name), o.left_out)
        for o in plugins.origins().values()
    ]
    show.as_json(found) if json else show.plugins(found)


@app.command()
def doctor(
    config: Annotated[
        list[Path] | None, typer.Option(help="A run's config or script to look through.")
    ] = None,
    engine_python: Annotated[str, typer.Option(help="Interpreter of the engine's environment.")] = "",
    json: Json = False,
) -> None:
    """Show versions, every patch's state with its reason, and what would get in the way. Exit 1 if
    anything would.
    """
    from bridge_plugins.cli import show
    from bridge_plugins.doctor.report import examine

    with show.working("importing Megatron Bridge"):
        report = examine(config or [], engine_python)
    show.as_json(report) if json else show.report(report)
    raise typer.Exit(exits.CONSISTENT if report.healthy else exits.FINDINGS)


@app.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def run(command: Annotated[list[str], typer.Argument(help="The command, after --.")]) -> None:
    """Run a command (torchrun, python, ray …) with the plugins loaded in every Python process that it
    starts.
    """
    from bridge_plugins.run import command as run_command

    run_command(command)


@app.command()
def autoload(
    enable: Annotated[bool, typer.Option("--enable", help="Write the .pth file.")] = False,
    disable: Annotated[bool, typer.Option("--disable", help="Remove the .pth file.")] = False,
    status: Annotated[bool, typer.Option("--status", help="Say whether it is there (the default).")] = False,
) -> None:
    """Load the plugins in every process of this environment that imports Megatron Bridge."""
    from bridge_plugins.autoload import pth
    from bridge_plugins.errors import UsageError

    if enable + disable + status > 1:
        raise UsageError("--enable, --disable and --status exclude each other; give one")
    if enable:
        pth.enable()
    if disable:
        pth.disable()
    typer.echo(f"autoload: {'on' if pth.enabled() else 'off'} ({pth.path()})")


def main() -> None:
    """The entry point of ``bridge-plugins``."""
    exits.run(app)
