"""`Topology.coordinates` against Megatron's own parallel state, on real ranks."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.ranks import Ranks


@pytest.mark.parametrize(
    "sizes",
    [
        {"tp": 2, "pp": 2, "ep": 2},
        {"pp": 2, "ep": 2},
        {"tp": 2, "ep": 2, "etp": 2},
        {"tp": 2, "world": 4, "ep": 4},
    ],
    ids=str,
)
def test_coordinates_are_megatrons(ranks: Ranks, sizes: dict[str, Any]) -> None:
    topology = Topology(**sizes)
    real = ranks("tests.integration.cases:megatron_coordinates", world=topology.world, sizes=sizes)
    assert [tuple(place) for place in real] == [topology.coordinates(rank) for rank in range(topology.world)]
