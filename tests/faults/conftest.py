"""Runs of the real stacks that several tests of faults share."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

if TYPE_CHECKING:
    from bridge_plugins.audit import Expected
    from tests.faults.streams import Stream

Audited = Callable[[str, str], list[str]]
Recorded = Callable[[str], "Stream"]

#: family: the two ranks that its stream is recorded on
TOPOLOGIES = {
    "qwen3": {"tp": 2},
    "qwen3_tied": {"pp": 2},
    "qwen3_moe": {"ep": 2},
    "deepseek_v3": {"ep": 2},
    "qwen3_vl_moe": {"pp": 2},
}


@pytest.fixture(scope="session")
def audited(ranks: Ranks, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Audited:
    """``audited("EP2", "local experts")``: what the audit says of a cell's export with a fault; a cell runs once."""
    from tests.faults import wide
    from tests.faults.cells import CELLS

    runs: dict[str, dict[str, list[str]]] = {}

    def get(cell: str, fault: str) -> list[str]:
        if cell not in runs:
            family, sizes, topology, provider, faults = CELLS[cell]
            folder = checkpoint(family, **sizes)
            if cell.startswith("wide"):
                folder = wide.make(folder, tmp_path_factory.mktemp("wide") / family)
            results = ranks(
                "tests.faults.exports:audited", world=Topology(**topology).world, timeout=200,
                checkpoint=str(folder), topology=topology, provider=provider, faults=list(faults),
            )  # fmt: skip
            assert all(json.dumps(result) == json.dumps(results[0]) for result in results)
            runs[cell] = results[0]
        return runs[cell][fault]

    return get


@pytest.fixture(scope="session")
def recorded(ranks: Ranks, checkpoint: Checkpoint, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """``recorded("qwen3_moe")``: what the bridge yields of a family on two ranks, recorded once."""
    from tests.faults import streams

    root = tmp_path_factory.mktemp("streams")

    def get(family: str) -> streams.Stream:
        folder = root / family
        if not folder.exists():
            ranks(
                "tests.faults.streams:record", world=2, checkpoint=str(checkpoint(family)),
                topology=TOPOLOGIES[family], folder=str(folder),
            )  # fmt: skip
        return streams.read(folder)

    return get


@pytest.fixture(scope="session")
def expected(checkpoint: Checkpoint) -> Callable[[str], Expected]:
    """``expected("qwen3_moe")``: names, shapes, dtypes and fingerprints of a family's checkpoint."""
    from bridge_plugins.audit import Expected

    return functools.cache(lambda family: Expected.from_folder(checkpoint(family)))
