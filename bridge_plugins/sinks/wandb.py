"""Scalars in the Weights & Biases run that the process has begun; none is begun here. Needs the package wandb.

They join the row of the run's current step, and never end it: what the trainer logs at that step afterwards would be
thrown away by W&B. In a run that logs nothing itself, one row is left: the last version.
"""

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
    """Log the version's scalars, to be plotted over the version."""
    if _wandb.run is not None:
        _log(_wandb.run, *_scalars.of(summary, findings))


def tell_parity(report: ParityReport, scores: Scores) -> None:  # noqa: ARG001 (nothing to plot)
    """Log its scalars, to be plotted over the version."""
    if _wandb.run is not None:
        _log(_wandb.run, *_scalars.of_parity(report))


def _log(run: Any, version: int, values: dict[str, float]) -> None:
    for kind in ("audit", "parity"):
        run.define_metric(f"{kind}/*", step_metric="audit/version")
    run.log({**values, "audit/version": version}, commit=False)
