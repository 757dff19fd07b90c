"""Runs of the real stacks that several tests of faults share."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

Audited = Callable[..., list[str]]


@pytest.fixture(scope="session")
def audited(ranks: Ranks, checkpoint: Checkpoint) -> Audited:
    """``audited("EP2", "local experts")``: what the audit says of a cell's export with a fault; a cell runs once."""
    from tests.faults.cells import CELLS

    runs: dict[str, dict[str, list[str]]] = {}

    def get(cell: str, fault: str) -> list[str]:
        if cell not in runs:
            family, sizes, topology, provider, faults = CELLS[cell]
            results = ranks(
                "tests.faults.exports:audited", world=Topology(**topology).world, timeout=200,
                checkpoint=str(checkpoint(family, **sizes)), topology=topology, provider=provider, faults=list(faults),
            )  # fmt: skip
            assert all(json.dumps(result) == json.dumps(results[0]) for result in results)
            runs[cell] = results[0]
        return runs[cell][fault]

    return get
