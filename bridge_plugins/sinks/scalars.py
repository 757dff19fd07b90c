"""A version as numbers to plot: findings, drift by layer, seconds spent."""

from __future__ import annotations

from collections import Counter

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary


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
        return int(version) if version.isdigit() else self._told, values
