"""Scalars in the Weights & Biases run that the process has begun; none is begun here. Needs the package wandb."""

from __future__ import annotations

from typing import Any

import wandb as _wandb  # type: ignore[import-not-found]

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scores
from bridge_plugins.sinks.scalars import Scalars

_scalars = Scalars()


def tell(summary: Summary, findings: list[Finding]) -> None:
    """Log the version's scalars, with the version as a metric of its own: a run counts its steps itself."""
    run: Any = _wandb.run
    if run is not None:
        step, values = _scalars.of(summary, findings)
        run.log({**values, "audit/version": step})


def tell_parity(report: ParityReport, scores: Scores) -> None:  # noqa: ARG001 (nothing to plot)
    """Log its scalars, with the version as a metric of its own."""
    run: Any = _wandb.run
    if run is not None:
        step, values = _scalars.of_parity(report)
        run.log({**values, "audit/version": step})
