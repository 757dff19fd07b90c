"""A file for each version in ``BRIDGE_AUDIT_DIR``, as ``bridge-audit`` reads it."""

from __future__ import annotations

from bridge_plugins.audit.files import path_of
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary


def tell(summary: Summary, findings: list[Finding]) -> None:  # noqa: ARG001 (the summary has them)
    """Write the summary, atomically."""
    summary.write(path_of(summary))
