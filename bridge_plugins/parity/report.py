"""How far each engine is from the trainer at one version, and what of that is wrong."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.parity.metrics import Parity


class ParityReport(msgspec.Struct, frozen=True):
    """Of one version.

    Attributes:
        version: the trainer's; empty if it has none (a checkpoint).
        limit: what the mean difference of log probabilities may be, in nats.
        engines: by URL.
        failed: engines that could not be asked, by URL, and why.
    """

    version: str
    limit: float
    engines: dict[str, Parity]
    findings: tuple[Finding, ...]
    failed: dict[str, str] = {}

    @classmethod
    def of(
        cls,
        version: str,
        engines: Mapping[str, Parity],
        limit: float,
        failed: Mapping[str, str] | None = None,
    ) -> ParityReport:
        """With the findings that follow."""
        found = [
            finding for url, parity in engines.items() for finding in parity.findings(url, limit, version)
        ]
        silent = [Finding("PARITY", url, f"could not be asked: {why}") for url, why in (failed or {}).items()]
        return cls(version, limit, dict(engines), (*found, *silent), dict(failed or {}))

    @property
    def word(self) -> str:
        return "findings" if self.findings else "within the limit"

    def __str__(self) -> str:
        of = f" version={self.version}" if self.version else ""
        worst = max((parity.mean_abs for parity in self.engines.values()), default=0.0)
        return f"VERDICT {self.word} {of} engines={len(self.engines)} mean|Δlogprob|={worst:.4f} limit={self.limit:g}"
