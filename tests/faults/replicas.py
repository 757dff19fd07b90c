"""What the forked ranks run: a tensor that two pipeline stages hold, before and after one copy drifts apart."""

from __future__ import annotations

from typing import Any

from bridge_plugins.topology import Topology


def drifted(
    checkpoint: str, topology: dict[str, Any], provider: dict[str, Any], parameter: str
) -> dict[str, list[str]]:
    """What ranks' own audits say while all copies are equal, and once the last rank's `parameter` has another bit."""
    import torch
    import torch.distributed as dist

    from bridge_plugins.audit.megatron_local import LocalAudit
    from bridge_plugins.audit.megatron_local.names import NameAudit
    from bridge_plugins.layout.trainer import trainer_layout
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology(**topology), load=not provider, **provider)
    last = dist.get_rank() == dist.get_world_size() - 1
    own = dict(trainer.model[-1].named_parameters())
    found = next((p for name, p in own.items() if name.endswith(parameter)), None)
    assert found is not None or not last, sorted(own)
    if provider:  # nothing was loaded: the copies are what an initialisation left, the same on both stages
        with torch.no_grad():
            for parameter_of_both in [p for name, p in own.items() if name.endswith(parameter)]:
                parameter_of_both.fill_(0.5)
        audit: Any = NameAudit(trainer.model)
    else:
        audit = LocalAudit(trainer_layout(trainer.bridge, trainer.model), trainer.model, model="tiny")

    def said(version: str) -> list[str]:
        told = audit.finish(version)
        return [str(finding) for finding in (told[1] if isinstance(told, tuple) else told)]

    before = said("1")
    if last:
        with torch.no_grad():
            found.view(torch.int16)[3] ^= 1
    return {"equal": before, "drifted": said("2")}
