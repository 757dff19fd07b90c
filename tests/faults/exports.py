"""What the forked ranks run: a real model, imported and exported once for each fault, and the audit of each."""

from __future__ import annotations

from typing import Any

from bridge_plugins.topology import Topology


def audited(
    checkpoint: str, topology: dict[str, Any], provider: dict[str, Any], faults: list[str]
) -> dict[str, list[str]]:
    """fault → what the audit says of an export with it. The weights are loaded anew for each."""
    import torch
    from megatron.bridge import AutoBridge

    from bridge_plugins.audit import Expected, WeightAudit
    from tests.faults.breaks import broken
    from tests.stacks.trainer import build

    sizes = Topology(**topology)
    trainer = build(checkpoint, sizes, load=False, **provider)
    expected = Expected.from_folder(checkpoint)
    said = {}
    for fault in faults:
        bridge = AutoBridge.from_hf_pretrained(checkpoint)  # which keeps names once it knows them
        with torch.no_grad():
            for parameter in (p for chunk in trainer.model for p in chunk.parameters()):
                parameter.normal_(0, 0.02)  # as it was before anything was loaded
        with broken(fault, "import"):
            bridge.load_hf_weights(trainer.model)
        audit = WeightAudit("tiny", str(sizes), expected)
        with broken(fault, "export"):
            for _ in audit.watch(bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False)):
                pass
        said[fault] = [str(finding) for finding in audit.finish("1")[1] if finding.counts]
    return said
