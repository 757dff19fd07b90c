"""What a command line ends with, and how an error of this project becomes one clear line."""

from __future__ import annotations

import os
import sys

import typer

from bridge_plugins.errors import BridgePluginsError

CONSISTENT, FINDINGS, NOT_DONE = 0, 1, 2


def run(app: typer.Typer) -> None:
    """Run `app`; a `BridgePluginsError` is printed as one line on stderr, and the exit is 2."""
    try:
        app()
    except BridgePluginsError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(NOT_DONE)
    except BrokenPipeError:  # `| head` is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(CONSISTENT)
