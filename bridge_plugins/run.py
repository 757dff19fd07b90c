"""``python -m bridge_plugins.run script.py …`` (or ``-m module …``): the program as it is, with the plugins loaded."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from bridge_plugins.errors import UsageError

SITE = Path(__file__).parent / "autoload" / "site"


def environment() -> dict[str, str]:
    """This process's environment, changed so that every Python started in it loads the plugins."""
    others = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys([str(SITE), *others]))}


def command(arguments: Sequence[str]) -> NoReturn:
    """Become `arguments`, run in `environment`. Raises `UsageError` if there is no such program."""
    sys.stdout.flush()  # what is buffered here would be lost
    sys.stderr.flush()
    try:
        os.execvpe(arguments[0], list(arguments), environment())  # noqa: S606
    except OSError as error:
        raise UsageError(f"{arguments[0]} can't be run: {error.strerror}; give a program on PATH") from error


def main(arguments: Sequence[str]) -> None:
    """Run a script or a module in this process. Raises `UsageError` if nothing is given, or no such file."""
    if not arguments or (arguments[0] == "-m" and len(arguments) < 2):
        raise UsageError("nothing to run: python -m bridge_plugins.run script.py …, or -m module …")
    from bridge_plugins.autoload import install

    install()
    os.environ.update(environment())  # for the processes that the program starts
    if arguments[0] == "-m":
        sys.argv = list(arguments[1:])
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return
    script = Path(arguments[0])
    if not script.is_file():
        raise UsageError(f"{script} is not a file: give a Python script, or -m and a module")
    sys.argv = list(arguments)
    sys.path[0] = str(script.parent.resolve())
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UsageError as error:
        print(f"bridge_plugins.run: {error}", file=sys.stderr)
        sys.exit(2)
