"""Every trainer's topology against every engine's: what is exported is what is served, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.integration.conftest import Serve
from tests.stacks.ranks import Ranks

TRAINERS: dict[str, dict[str, Any]] = {
    "TP1": {},
    "TP2 PP2 EP2": {"tp": 2, "pp": 2, "ep": 2},
    "PP2 VPP2": {"pp": 2, "vpp": 2},
    "EP4": {"ep": 4, "world": 4},
}
ENGINES = {"TP1": (1, 1), "TP2": (2, 1), "TP2 EP2": (2, 2)}


def push_twice(checkpoint: str, url: str, topology: dict[str, Any], label: str) -> list[Any]:
    """Push other weights, then the checkpoint's; what each verdict says, and how much it covers."""
    import torch.distributed as dist

    from bridge_plugins.audit import Expected, WeightAudit
    from bridge_plugins.engines.sglang.client import Engine
    from bridge_plugins.engines.sync import WeightSync
    from tests.stacks.trainer import build

    trainer = build(checkpoint, Topology(**topology))
    first = dist.get_rank() == 0
    expected = Expected.from_folder(Path(checkpoint)) if first else None
    engines = [Engine(url)] if first else []

    def export(factor: float) -> Iterator[tuple[str, Any]]:
        for name, tensor in trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False):
            yield name, tensor * factor

    said = []
    for factor in (2.0, 1.0):
        # Only the checkpoint's own weights are held against the checkpoint.
        audit = WeightAudit("moe", expected=expected if factor == 1.0 else None)
        sync = WeightSync(audit, engines, bucket_bytes=300_000)
        done = sync.push(export(factor), f"{label} times {factor:g}")
        one = done.comparisons[0]
        said.append([str(done.verdict), one.compared_bytes, one.total_bytes])
    return said


def cells() -> Iterator[Any]:
    for trainer in TRAINERS:
        for engine in ENGINES:
            tier = pytest.mark.ci if engine == "TP1" else pytest.mark.full
            yield pytest.param(trainer, engine, marks=tier, id=f"{trainer} to {engine}")


@pytest.mark.parametrize(("trainer", "engine"), list(cells()))
def test_what_is_served_is_what_is_trained(
    ranks: Ranks, serve: Serve, models: dict[str, Path], trainer: str, engine: str
) -> None:
    tp, ep = ENGINES[engine]
    server = serve("moe", engine_tp=tp, engine_ep=ep)
    sizes = TRAINERS[trainer]
    told = ranks(
        "tests.integration.test_grid:push_twice", world=Topology(**sizes).world, timeout=240,
        checkpoint=str(models["moe"]), url=server.engine.url, topology=sizes, label=f"{trainer} {engine}",
    )  # fmt: skip
    assert all(said == told[0] for said in told)
    for verdict, compared, total in told[0]:
        assert verdict.startswith("VERDICT consistent "), verdict
        assert verdict.endswith("tensors=135 layers=4 mismatched=0 not_compared=0")
        assert compared == total > 2_000_000
    assert server.engine.weight_version() == f"{trainer} {engine} times 1"
