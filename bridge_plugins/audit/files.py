"""Where automatic mode writes, and how much: one file for each version, stage and rank."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from bridge_plugins.audit.label import spelt as spelt
from bridge_plugins.audit.summary import Summary

logger = logging.getLogger(__name__)

DEFAULT_FOLDER = "bridge-audit"
DEFAULT_VERSIONS = 3


def folder() -> Path:
    """``BRIDGE_AUDIT_DIR``. A run wants a folder of its own: in a shared one versions of the same label are mixed up."""
    return Path(os.environ.get("BRIDGE_AUDIT_DIR") or DEFAULT_FOLDER)


def versions_to_audit() -> int:
    """``BRIDGE_AUDIT_MAX_VERSIONS``: how many versions a process audits; negative: no limit."""
    given = os.environ.get("BRIDGE_AUDIT_MAX_VERSIONS", "")
    try:
        return int(given) if given else DEFAULT_VERSIONS
    except ValueError:
        logger.warning(
            "BRIDGE_AUDIT_MAX_VERSIONS=%s is no number; %s versions are audited", given, DEFAULT_VERSIONS
        )
        return DEFAULT_VERSIONS


def path_of(summary: Summary) -> Path:
    """The file of a summary."""
    header = summary.header
    return folder() / f"v{spelt(header.version)}.{header.stage}.rank{header.rank:05d}.json"
