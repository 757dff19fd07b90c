"""What engines serve, held against what the trainer holds: every layer, every tensor of a layer that differs, every rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.comparison import Comparison, compare
from bridge_plugins.engines.sglang.fleet import Fleet
from bridge_plugins.engines.sglang.readback import read_back


@dataclass(frozen=True)
class Verified:
    """What came of it, engine by engine. `failed`: by URL, engines that could not be asked, and why."""

    comparisons: tuple[Comparison, ...]
    failed: dict[str, str] = field(default_factory=dict)

    def verdict(self, summary: Summary, findings: Sequence[Finding] = ()) -> Verdict:
        """The last word on `summary`, with the audit's `findings` of it."""
        silent = [
            Finding("READBACK", url, why.removeprefix(f"{url} "), "what it serves is not known")
            for url, why in self.failed.items()
        ]
        found = [finding for comparison in self.comparisons for finding in comparison.findings]
        return Verdict.of(
            summary,
            [*findings, *found, *silent],
            engines=len(self.comparisons),
            mismatched=sum(len(comparison.mismatched) for comparison in self.comparisons),
            not_compared=sum(len(comparison.not_compared) for comparison in self.comparisons),
        )


def verify(summary: Summary, engines: Sequence[Engine], previous: Summary | None = None) -> Verified:
    """Ask all engines at once what they serve of `summary`.

    Args:
        summary: the trainer's, or that of an HF folder.
        previous: the version before it: what an engine still has of it is called stale.
    """
    fleet = Fleet(engines, "roll on")
    try:
        compared = fleet.each(
            "could not be read back",
            lambda engine: compare(summary, engine.url, read_back(engine, summary), previous),
        )
    finally:
        fleet.close()
    return Verified(tuple(compared.values()), dict(fleet.failed))
