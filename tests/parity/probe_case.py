"""What a rank does in the tests of the parity probe."""

from __future__ import annotations

import os
from typing import Any

import msgspec

from bridge_plugins.topology import Topology


def measure(checkpoint: str, urls: list[str], topology: dict[str, Any], version: str, folder: str) -> Any:
    """Build the trainer, measure its parity with the engines, and let the sink ``json`` keep its scores."""
    import torch.distributed as dist

    from bridge_plugins.engines.sglang.client import Engine
    from bridge_plugins.parity import ParityProbe
    from tests.stacks.trainer import build

    os.environ.update(BRIDGE_AUDIT_SINKS="json", BRIDGE_AUDIT_DIR=folder)
    trainer = build(checkpoint, Topology(**topology))
    engines = [Engine(url) for url in urls] if dist.get_rank() == 0 else []
    report = ParityProbe(trainer.model, [[5, 6, 7, 8], [100, 200]], engines).measure(version)
    return msgspec.to_builtins(report)
