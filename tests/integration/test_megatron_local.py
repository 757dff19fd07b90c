"""A trainer's own parameters against a real engine, without an export: what ranks hold is what is served, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import Serve
from tests.stacks.ranks import Ranks


def hold_against(checkpoint: str, url: str, topology: dict[str, Any]) -> list[Any]:
    """The engine gets the checkpoint; (mismatched, not compared) before and after a bit flips on the last rank."""
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file

    from bridge_plugins.audit.megatron_local import LocalAudit
    from bridge_plugins.engines.sglang.client import Engine
    from bridge_plugins.engines.sglang.comparison import compare
    from bridge_plugins.engines.sglang.push import push
    from bridge_plugins.engines.sglang.readback import read_back
    from bridge_plugins.layout.trainer import trainer_layout
    from bridge_plugins.topology import Topology
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology(**topology))
    local = LocalAudit(trainer_layout(trainer.bridge, trainer.model), trainer.model)
    engines = [Engine(url)] if dist.get_rank() == 0 else []
    push(load_file(f"{checkpoint}/model.safetensors").items(), engines)
    found = []
    for version in ("before", "after"):
        summary, _ = local.finish(version)
        if engines:
            held = compare(summary, url, read_back(engines[0], summary), None)
            found.append([len(summary.records), sorted(held.mismatched), held.not_compared])
        dist.barrier()
        if dist.get_rank() == dist.get_world_size() - 1:
            weights = dict(trainer.model[-1].named_parameters())
            name = next(name for name in reversed(weights) if name.endswith("experts.linear_fc2.weight3"))
            with torch.no_grad():
                weights[name].view(torch.int16)[5, 7] ^= 1
    return found


@pytest.mark.parametrize(
    "engine",
    [
        pytest.param({}, id="engine TP1", marks=pytest.mark.ci),
        pytest.param({"engine_tp": 2, "engine_ep": 2}, id="engine TP2 EP2", marks=pytest.mark.full),
    ],
)
def test_what_ranks_hold_is_what_the_engine_serves(
    ranks: Ranks, serve: Serve, models: dict[str, Path], engine: dict[str, int]
) -> None:
    server, topology = serve("moe", **engine), {"tp": 2, "pp": 2, "ep": 2}
    (before, after), *_ = ranks(
        "tests.integration.test_megatron_local:hold_against", world=4, timeout=240,
        checkpoint=str(models["moe"]), url=server.engine.url, topology=topology,
    )  # fmt: skip
    tensors, mismatched, not_compared = before
    assert tensors > 100
    assert not mismatched
    assert not not_compared
    # Expert-parallel rank 1 of two holds experts 4 to 7: the fourth is 7.
    assert after[1] == ["model.layers.3.mlp.experts.7.down_proj.weight"]
