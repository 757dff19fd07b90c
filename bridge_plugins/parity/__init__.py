"""Trainer and engine on the same tokens; and two companions of a run: gradients by layer, and a barrier around logging."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge_plugins import lazy

if TYPE_CHECKING:
    from bridge_plugins.parity.barrier import LoggingBarrier
    from bridge_plugins.parity.engine import Sample, sample
    from bridge_plugins.parity.gradients import GradientAudit
    from bridge_plugins.parity.metrics import Parity, compare

__all__ = ["GradientAudit", "LoggingBarrier", "Parity", "Sample", "compare", "sample"]

# The engine's side needs no torch.
__getattr__ = lazy.names(
    __name__,
    {
        "GradientAudit": "gradients",
        "LoggingBarrier": "barrier",
        "Parity": "metrics",
        "Sample": "engine",
        "compare": "metrics",
        "sample": "engine",
    },
)
