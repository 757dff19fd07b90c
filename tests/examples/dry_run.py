"""An example's ``--dry-run``, read back into values."""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import shlex
import sys
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True)
class DryRun:
    """What was printed: the command's words, and the variables of each kind of process. `error` is stderr."""

    status: int
    command: list[str]
    environment: dict[str, dict[str, str]]
    lines: list[str]
    error: str

    @property
    def options(self) -> list[str]:
        """What the framework's own program is given."""
        return (
            self.command[self.command.index("train.py") + 1 :] if "train.py" in self.command else self.command
        )

    @property
    def flags(self) -> set[str]:
        return {word for word in self.options if word.startswith("--")}

    def value(self, option: str) -> str:
        """The word after a flag that is given once."""
        [at] = [number for number, word in enumerate(self.options) if word == option]
        return self.options[at + 1]

    @property
    def overrides(self) -> dict[str, str]:
        """Hydra's overrides among the words, each given once; the key with its plus signs, the value as Hydra reads it."""
        pairs = [word.partition("=") for word in self.command if "=" in word and not word.startswith("-")]
        assert len({key.lstrip("+") for key, _, _ in pairs}) == len(pairs)
        return {key: value for key, _, value in pairs}

    @property
    def runtime_environment(self) -> Any:
        """What Ray is told of every process."""
        [text] = [word for word in self.command if word.startswith("--runtime-env-json=")]
        return json.loads(text.partition("=")[2])


def dry_run(example: str, *arguments: object) -> DryRun:
    """Run ``python -m examples.EXAMPLE ARGUMENTS --dry-run`` in this process."""
    out, err, status = io.StringIO(), io.StringIO(), 0
    with (
        patch.object(sys, "argv", [example, *map(str, arguments), "--dry-run"]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            runpy.run_module(f"examples.{example}", run_name="__main__", alter_sys=True)
        except SystemExit as ended:
            status = int(ended.code or 0)
    lines = out.getvalue().splitlines()
    command: list[str] = []
    environment: dict[str, dict[str, str]] = {}
    for line in lines:
        if line.startswith("$ "):
            command = shlex.split(line[2:])
        elif line.startswith(("launcher ", "trainer ", "engine ")):
            process, variable = line.split(maxsplit=1)
            name, _, value = variable.partition("=")
            environment.setdefault(process, {})[name] = value
    return DryRun(status, command, environment, lines, err.getvalue())
