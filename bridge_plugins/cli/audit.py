"""``bridge-audit``: names and weights, checked before and after they travel."""

from __future__ import annotations

import typer

from bridge_plugins.cli import exits
from bridge_plugins.cli.commands.diff import diff
from bridge_plugins.cli.commands.parity import parity
from bridge_plugins.cli.commands.preflight import preflight
from bridge_plugins.cli.commands.show import show
from bridge_plugins.cli.commands.summary import summary
from bridge_plugins.cli.commands.verify import verify

app = typer.Typer(
    help="Audit the weights that Megatron Bridge hands to a rollout engine.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def audit() -> None:
    """Audit the weights that Megatron Bridge hands to a rollout engine."""


for command in (preflight, summary, show, diff, verify, parity):
    app.command()(command)


def main() -> None:
    """The entry point of ``bridge-audit``."""
    exits.run(app)
