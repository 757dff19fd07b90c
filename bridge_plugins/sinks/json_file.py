"""Files in ``BRIDGE_AUDIT_DIR``, as ``bridge-audit`` reads them: one for each version, and for its parity."""

from __future__ import annotations

from bridge_plugins.audit import keeping
from bridge_plugins.audit.files import folder, path_of
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.label import spelt
from bridge_plugins.audit.summary import Summary
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scores


def tell(summary: Summary, findings: list[Finding]) -> None:  # noqa: ARG001 (the summary has them)
    """Write the summary, atomically; another run's file of that name is kept."""
    keeping.write(summary, path_of(summary))


def tell_parity(report: ParityReport, scores: Scores) -> None:  # noqa: ARG001 (asked again of an engine when it is read)
    """Write the trainer's scores, atomically, for ``bridge-audit parity``. It is no summary, and not called ``.json``."""
    scores.write(folder() / f"v{spelt(scores.version)}.scores")
