"""The last word on a version: consistent, findings, or not compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary


@dataclass(frozen=True)
class Verdict:
    """What is known of a version once every engine was asked what it serves."""

    version: str
    tensors: int
    layers: int
    engines: int
    mismatched: int
    not_compared: int
    findings: tuple[Finding, ...]

    @classmethod
    def of(
        cls,
        summary: Summary,
        findings: Sequence[Finding],
        *,
        engines: int,
        mismatched: int,
        not_compared: int,
    ) -> Verdict:
        """Of the audit's findings and of what `engines` engines serve, counted over all of them."""
        layers = sum(layer.name.rpartition(".")[2].isdigit() for layer in summary.layers)
        return cls(
            summary.header.version,
            len(summary.records),
            layers,
            engines,
            mismatched,
            not_compared,
            tuple(findings),
        )

    @property
    def word(self) -> str:
        """``consistent`` only if every tensor was compared with what every engine serves."""
        if self.mismatched or any(finding.counts for finding in self.findings):
            return "findings"
        if self.not_compared or not self.tensors:
            return "not compared"
        return "consistent" if self.engines else "trainer side consistent"

    @property
    def exit_status(self) -> int:
        """0 for ``consistent`` alone."""
        return 0 if self.word == "consistent" else 1

    def __str__(self) -> str:
        return (
            f"VERDICT {self.word}  version={self.version}  tensors={self.tensors} layers={self.layers} "
            f"mismatched={self.mismatched} not_compared={self.not_compared}"
        )
