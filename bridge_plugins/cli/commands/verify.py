"""``bridge-audit verify``: what engines serve, held against what the trainer holds."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge_plugins.cli import exits


def verify(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SUMMARY", help="The trainer's summary, or the HF folder that should be served."
        ),
    ],
    engine: Annotated[list[str], typer.Option(help="URL of an SGLang server. Repeat it.")],
    earlier: Annotated[
        str, typer.Option(help="A summary of the version before, to tell what an engine still has of it.")
    ] = "",
    api_key_env: Annotated[
        str, typer.Option(help="The environment variable that holds the servers' admin key.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds for an engine to answer one call.")] = 120.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask every rank of every engine what it serves: every layer, and every tensor of a layer that differs. Exit 0 if
    all of it is what SUMMARY says, 1 if not, or if something could not be compared.
    """
    from bridge_plugins.cli import verified

    outcome = verified.find(
        source, engine, earlier=earlier, key=verified.key_from(api_key_env), timeout=timeout
    )
    verified.show(outcome, json=json)
    raise typer.Exit(exits.CONSISTENT if outcome.consistent else exits.FINDINGS)
