"""Summaries on disk: one file, or a folder with one of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge_plugins.audit.sources.source import Progress
from bridge_plugins.audit.summary import Summary, read_summary

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class SummaryFiles:
    """A summary file, or a folder of summary files of several ranks."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def nbytes(self) -> int:
        return 0

    def summary(self, progress: Progress = lambda _: None) -> Summary:  # noqa: ARG002
        return read_summary(self.path)

    def tensor(self, name: str) -> Tensor | None:  # noqa: ARG002
        return None
