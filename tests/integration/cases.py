"""What the forked ranks run: functions of text and numbers, named by the tests."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path
from typing import Any

from rich.console import Console

from bridge_plugins.topology import Topology


def make_checkpoint(kind: str, folder: str) -> None:
    from examples.bridge_mode.checkpoint import make_checkpoint

    make_checkpoint(kind, Path(folder))


def bridge_run(
    checkpoint: str, url: str, folder: str, topology: dict[str, Any], fault: str = "", steps: int = 1
) -> dict[str, Any]:
    """The demo's trainer on this rank: its outcome and what it printed."""
    from examples.bridge_mode.trainer import Settings, run

    sizes = dataclasses.asdict(Topology(**topology))
    settings = Settings(
        checkpoint=checkpoint, url=url, folder=folder, topology=sizes, steps=steps,
        learning_rate=1e-3, bucket_bytes=300_000, fault=fault,
    )  # fmt: skip
    said = io.StringIO()
    outcome = run(settings, Console(file=said, width=100))
    return {
        "verdict": outcome.verdict,
        "exit_status": outcome.exit_status,
        "findings": outcome.findings,
        "said": said.getvalue(),
    }
