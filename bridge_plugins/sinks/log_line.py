"""One line for each version in the log, and one for its parity with each engine."""

from __future__ import annotations

import logging
from collections import Counter

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scores

logger = logging.getLogger(__name__)


def tell(summary: Summary, findings: list[Finding]) -> None:
    """Log it at level INFO, or WARNING if something was found."""
    header = summary.header
    kinds = Counter(finding.severity for finding in findings)
    bad = kinds["error"] + kinds["warning"] > 0
    logger.log(
        logging.WARNING if bad else logging.INFO,
        "audit version=%s stage=%s tensors=%d bytes=%d digest=%s errors=%d warnings=%d seconds=%.3f%s",
        header.version, header.stage, len(summary.records), sum(layer.nbytes for layer in summary.layers),
        summary.digest[:16], kinds["error"], kinds["warning"], header.seconds,
        f" partial={header.partial!r}" if header.partial else "",
    )  # fmt: skip


def tell_parity(report: ParityReport, scores: Scores) -> None:  # noqa: ARG001 (too long for a line)
    """Log it at level INFO, or WARNING if something was found."""
    level = logging.WARNING if report.findings else logging.INFO
    for url, parity in report.engines.items():
        logger.log(level, "parity version=%s engine=%s %s", report.version, url, parity)
