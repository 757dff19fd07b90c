"""``bridge-audit parity``: what engines think of tokens, held against what the trainer thinks of them."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge_plugins.cli import exits


def parity(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TRAINER",
            help="The trainer's scores, as a parity probe wrote them, or an HF folder, which is run on the CPU.",
        ),
    ],
    engine: Annotated[list[str], typer.Option(help="URL of an SGLang server. Repeat it.")],
    limit: Annotated[
        float | None,
        typer.Option(help="Nats that log probabilities may differ in the mean.  [default: 0.03]"),
    ] = None,
    contract: Annotated[str, typer.Option(help="Take the limit of this contract.")] = "",
    prompt: Annotated[
        list[str] | None, typer.Option(help="What the first engine shall continue, for a folder. Repeat it.")
    ] = None,
    new_tokens: Annotated[int, typer.Option(min=1, help="Tokens that it draws for each prompt.")] = 16,
    api_key_env: Annotated[
        str, typer.Option(help="The environment variable that holds the servers' admin key.")
    ] = "",
    timeout: Annotated[float, typer.Option(help="Seconds for an engine to answer one call.")] = 120.0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Let the trainer and every engine score the same tokens. Exit 0 if log probabilities differ by no more than the limit
    and one weight version served them, 1 if not, or if an engine could not be asked.
    """
    from bridge_plugins.cli import likeness, verified

    outcome = likeness.find(
        source, engine, limit=likeness.limit_of(limit, contract), prompts=prompt or [], new_tokens=new_tokens,
        key=verified.key_from(api_key_env), timeout=timeout,
    )  # fmt: skip
    likeness.show(outcome, json=json)
    raise typer.Exit(exits.FINDINGS if outcome.findings else exits.CONSISTENT)
