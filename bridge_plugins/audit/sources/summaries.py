"""Summaries on disk: one file, or a folder with one of each rank."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bridge_plugins.audit.reading import read_summary
from bridge_plugins.audit.sources.source import Progress, RecordsOnly
from bridge_plugins.audit.summary import Summary


@dataclass(frozen=True)
class SummaryFiles(RecordsOnly):
    """A summary file, or a folder of summary files of several ranks."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)

    def summary(self, progress: Progress = lambda _: None) -> Summary:  # noqa: ARG002
        return read_summary(self.path)
