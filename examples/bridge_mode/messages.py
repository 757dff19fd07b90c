"""What launcher and ranks tell each other, in files."""

from __future__ import annotations

from typing import Any

import msgspec


class Settings(msgspec.Struct):
    """What the launcher tells the ranks, in one file."""

    checkpoint: str
    url: str
    folder: str
    topology: dict[str, Any]
    steps: int
    learning_rate: float
    bucket_bytes: int
    fault: str = ""
    transport: str = "from-tensor"


class Outcome(msgspec.Struct):
    """What rank 0 tells the launcher at the end."""

    verdict: str
    exit_status: int
    findings: list[str]
    notes: list[str] = []
