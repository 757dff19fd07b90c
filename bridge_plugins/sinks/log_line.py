"""One line for each version in the log."""

from __future__ import annotations

import logging
from collections import Counter

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary

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
