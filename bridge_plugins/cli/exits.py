"""What a command line ends with, and how an error becomes one clear line."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import typer

from bridge_plugins.errors import BridgePluginsError

CONSISTENT, FINDINGS, NOT_DONE = 0, 1, 2
INTERRUPTED = 130
PIPE_CLOSED = 141  #: as of any tool that `| head` stops; not 0, since what was found was not all said

#: Typer brings a click of its own or uses the one installed, by its version: ask its exceptions for their base.
_CLICK_EXCEPTION: type[Exception] = typer.BadParameter.__mro__[2]


def run(app: typer.Typer) -> None:
    """Run `app` and exit. An error of this project, or in the options, is one line on stderr and exit 2."""
    code = NOT_DONE
    if sys.stdout is None:  # closed by whoever started this: `>&-`
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        code = app(standalone_mode=False) or CONSISTENT
        sys.stdout.flush()
    except BridgePluginsError as error:
        _say(str(error))
    except _CLICK_EXCEPTION as error:
        _say_usage(error)
    except (typer.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit):  # the latter is what typer and rich make of the former
        _give_stdout_up()
        code = PIPE_CLOSED
    except OSError as error:  # without a file's name it is stdout's, on a disk that is full
        _say(str(error) if error.filename else f"the output can't be written: {error.strerror}")
        _give_stdout_up()
    sys.exit(code)


def _give_stdout_up() -> None:
    """Let what is still to be printed go nowhere: the interpreter tries it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say_usage(error: Any) -> None:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()  # the help
    else:
        context = getattr(error, "ctx", None)
        command = f"{context.command_path} --help" if context else "--help"
        _say(f"{error.format_message().rstrip('.')}; see {command}")


def _say(error: str) -> None:
    print(f"error: {error}", file=sys.stderr)
