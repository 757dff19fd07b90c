"""A version as numbers to plot: findings, drift by layer, seconds spent, and parity with the engine farthest off."""

from __future__ import annotations

from collections import Counter

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary
from bridge_plugins.parity.report import ParityReport


class Scalars:
    """Keeps the layers' norms of the version before, to tell how far each has drifted."""

    def __init__(self) -> None:
        self._norms: dict[str, dict[str, float]] = {}
        self._told = 0

    def of(self, summary: Summary, findings: list[Finding]) -> tuple[int, dict[str, float]]:
        """``(step, {tag: value})``. The step is the version, or counts versions that are no numbers.

        ``drift`` is the change of a layer's norm since the version before, over that norm: 0 is none. It sees how
        far a layer's length moved, not its direction.
        """
        self._told += 1
        version, stage = summary.header.version, summary.header.stage
        kinds = Counter(finding.severity for finding in findings)
        values = {
            f"audit/{stage}/errors": float(kinds["error"]),
            f"audit/{stage}/warnings": float(kinds["warning"]),
            f"audit/{stage}/seconds": summary.header.seconds,
        }
        before = self._norms.get(stage, {})
        self._norms[stage] = {layer.name: layer.norm for layer in summary.layers}
        for name, norm in self._norms[stage].items():
            if before.get(name):
                values[f"audit/{stage}/drift/{name}"] = abs(norm - before[name]) / before[name]
        return self._step(version), values

    def of_parity(self, report: ParityReport) -> tuple[int, dict[str, float]]:
        """``(step, {tag: value})``, with the worst of all engines."""
        all_of = list(report.engines.values())
        values = {
            "parity/max_abs": max(one.max_abs for one in all_of),
            "parity/mean_abs": max(one.mean_abs for one in all_of),
            "parity/kl_k1": max((one.kl_k1 for one in all_of), key=abs),
            "parity/kl_k3": max(one.kl_k3 for one in all_of),
            "parity/greedy": min(one.greedy for one in all_of),
            "parity/mixed_versions": float(sum(one.mixed for one in all_of)),
        }
        return self._step(report.version), values

    def _step(self, version: str) -> int:
        return int(version) if version.isdigit() else self._told
