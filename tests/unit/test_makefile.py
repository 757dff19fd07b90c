"""What the README's `make demo …` lines hand on to the demo."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = sorted(set(re.findall(r"^make demo [A-Z][^#\n]*", (ROOT / "README.md").read_text(), re.MULTILINE)))


def handed_on(line: str, **env: str) -> list[str]:
    command = [*line.split(), "--dry-run"]
    # run by `make test`, this process inherits that make's level and flags: a person's shell has neither
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, env={**shell, **env}, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[-1].partition("examples.bridge_mode")[2].split()


@pytest.mark.parametrize("line", SHOWN)
def test_every_option_of_the_readme_is_handed_on(line: str) -> None:
    wanted = []
    for option in line.split()[2:]:
        name, _, value = option.partition("=")
        wanted += [f"--{name.lower().replace('_', '-')}", *([] if name == "KEEP" else [value])]
    assert sorted(handed_on(line)) == sorted(wanted)


def test_a_size_in_the_environment_is_somebody_elses() -> None:
    assert handed_on("make demo PP=2", TP="7", WORLD="16") == ["--pp", "2"]


def test_the_readme_shows_options() -> None:
    assert len(SHOWN) >= 4
