"""Trainer and engine on the same tokens; and two companions of a run: gradients by layer, and a barrier around logging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge_plugins import lazy

if TYPE_CHECKING:
    from bridge_plugins.parity.barrier import LoggingBarrier
    from bridge_plugins.parity.engine import sample, score
    from bridge_plugins.parity.gradients import GradientAudit
    from bridge_plugins.parity.metrics import Parity, compare
    from bridge_plugins.parity.probe import ParityProbe
    from bridge_plugins.parity.report import ParityReport
    from bridge_plugins.parity.scores import Scored, Scores, read_scores

__all__ = [
    "GradientAudit",
    "LoggingBarrier",
    "Parity",
    "ParityProbe",
    "ParityReport",
    "Scored",
    "Scores",
    "compare",
    "read_scores",
    "sample",
    "score",
]

# The engine's side needs no torch.
__getattr__ = lazy.names(
    __name__,
    {
        "GradientAudit": "gradients",
        "LoggingBarrier": "barrier",
        "Parity": "metrics",
        "ParityProbe": "probe",
        "ParityReport": "report",
        "Scored": "scores",
        "Scores": "scores",
        "compare": "metrics",
        "read_scores": "scores",
        "sample": "engine",
        "score": "engine",
    },
)
