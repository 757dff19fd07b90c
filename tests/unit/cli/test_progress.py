"""A progress bar on a terminal, after a while, on stderr; nothing elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_plugins.cli import progress
from tests.unit.cli.command import audit, save, weights


@pytest.mark.parametrize(
    ("terminal", "patience", "shown"), [("1", -1.0, True), ("1", 1e9, False), ("0", -1.0, False)]
)
def test_a_bar_where_there_is_a_terminal_and_something_to_wait_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, terminal: str, patience: float, shown: bool
) -> None:
    monkeypatch.setenv("TTY_COMPATIBLE", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress, "_PATIENCE", patience)
    model = save(tmp_path / "model", weights(), files=3)
    done = audit("summary", model, "--json")
    assert done.code == 0
    assert ("/s" in done.err) == shown
    assert bool(done.err) == shown
    assert done.json["rows"]
