"""Scalars in ``BRIDGE_AUDIT_DIR/tensorboard``. Needs the package tensorboard."""

from __future__ import annotations

import functools
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from bridge_plugins.audit.files import folder
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scores
from bridge_plugins.sinks.scalars import Scalars

_scalars = Scalars()


def tell(summary: Summary, findings: list[Finding]) -> None:
    """Write the version's scalars, and see that they reach the disk."""
    _write(*_scalars.of(summary, findings))


def tell_parity(report: ParityReport, scores: Scores) -> None:  # noqa: ARG001 (nothing to plot)
    """Write its scalars, and see that they reach the disk."""
    _write(*_scalars.of_parity(report))


def _write(step: int, values: dict[str, float]) -> None:
    for tag, value in values.items():
        _writer().add_scalar(tag, value, step)
    _writer().flush()


@functools.cache
def _writer() -> Any:
    return SummaryWriter(str(folder() / "tensorboard"))
