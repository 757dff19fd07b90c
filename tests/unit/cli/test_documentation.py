"""Pages with real output: each command on them is run, and prints what the page says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from bridge_plugins.cli.audit import app

SCRIPT = Path(__file__).parents[3] / "scripts" / "command_line.py"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("command_line", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_show_what_is_printed(script: ModuleType) -> None:
    for path in script.PAGES:
        page = path.read_text()
        assert page.count("\n$ bridge-audit ") >= 6
        assert script.rendered(page) == page


def test_every_command_is_on_the_page(script: ModuleType) -> None:
    commands = {command.callback.__name__ for command in app.registered_commands if command.callback}
    assert commands == set(re.findall(r"^\| `bridge-audit (\w+) ", script.PAGES[0].read_text(), re.MULTILINE))
