"""Commands that the documentation shows: each names a command, options, a target or a file that there is.

What they print is another matter: `tests/unit/cli/test_documentation.py` and `tests/integration/test_demo.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bridge_plugins import hookspecs
from bridge_plugins.cli import audit, plugins

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
APPS = {"bridge-audit": audit.app, "bridge-plugins": plugins.app}

_VARIABLES = r"(?:[A-Z_]+=\S+ )*"
_START = (
    rf"{_VARIABLES}(?:bridge-audit |bridge-plugins |make |python -m |python scripts/|scripts/\w+\.|pytest )"
)
#: On a line of a code block, after a prompt perhaps; or as code in a sentence.
_COMMAND = re.compile(rf"^(?:    |\$ )?({_START}.*)$|(?<!`)`({_START}[^`]*)`(?!`)", re.MULTILINE)


def commands(text: str) -> Iterator[str]:
    for match in _COMMAND.finditer(text.replace("\\\n", " ")):
        yield (
            re.sub(rf"^{_VARIABLES}", "", (match[1] or match[2]).replace("\n", " "))
            .partition("  #")[0]
            .strip()
        )


def wrong(command: str) -> str:
    """What of a command there isn't; empty if all of it is there."""
    program, *words = re.sub(r"[\[\]…]|\| .*$", " ", command).split()
    if program in APPS:
        return _wrong_options(APPS[program], words)
    if program == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return next((word for word in words if "=" not in word and word not in targets), "")
    if words[:1] == ["-m"]:
        module = ROOT / words[1].replace(".", "/")
        found = (
            module.is_dir() or module.with_suffix(".py").is_file() or module.name.isupper()
        )  # examples.NAME
        return "" if found else words[1]
    files = [program, *words] if "/" in program else words
    return next((word for word in files if "/" in word and not (ROOT / word).exists()), "")


def _wrong_options(app: typer.Typer, words: list[str]) -> str:
    group: Any = typer.main.get_command(app)
    if not words or words[0].startswith("--"):
        return ""
    command = group.commands.get(words[0])
    if command is None:
        return words[0]
    known = {"--help", *(option for parameter in command.params for option in parameter.opts)}
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    given = [word.partition("=")[0].strip(",.;:") for word in own if word.startswith("--")]
    return next((option for option in given if option not in known), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_there(page: Path) -> None:
    assert [(command, wrong(command)) for command in commands(page.read_text()) if wrong(command)] == []


def test_pages_show_commands_and_a_wrong_one_is_seen() -> None:
    assert sum(len(list(commands(page.read_text()))) for page in PAGES) > 100
    text = "`bridge-audit verify S --engin URL` and\n\n    A=1 bridge-plugins docter\n    make tests  # x\n"
    assert [wrong(command) for command in commands(text)] == ["--engin", "docter", "tests"]


def test_every_hook_is_on_the_page_of_plugins() -> None:
    hooks = {name for name, value in vars(hookspecs).items() if hasattr(value, "bridge_plugins_spec")}
    page = (ROOT / "docs" / "plugins.md").read_text()
    assert hooks == set(re.findall(r"^\| `(\w+)\(", page, re.MULTILINE))
