"""The rules that bind sizes, and what each violation tells the user to do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.errors import UsageError
from bridge_plugins.topology import ModelSizes, Topology

MOE = ModelSizes(layers=4, heads=8, kv_heads=4, hidden=128, ffn=256, experts=8, expert_ffn=64)
DENSE = ModelSizes(layers=4, heads=8, kv_heads=4, hidden=128, ffn=256)

sizes = st.sampled_from([1, 2, 4])
topologies = st.builds(Topology, tp=sizes, pp=sizes, vpp=st.sampled_from([1, 2]), ep=sizes, etp=sizes)


def test_the_demo_works() -> None:
    topology = Topology(tp=2, pp=2, ep=2)
    assert topology.violations(MOE) == []
    assert topology.sp
    assert topology.world == 4


@pytest.mark.parametrize(
    ("wrong", "model", "rule", "remedy"),
    [
        ({"tp": 3}, MOE, "attention heads", "TP=2"),
        ({"pp": 3}, MOE, "layers divide evenly", "STAGES=2,1,1"),
        ({"pp": 2, "stages": (3, 2)}, MOE, "STAGES gives the layers", "STAGES=2,2"),
        ({"vpp": 2}, MOE, "virtual stages need a pipeline", "PP=2"),
        ({"ep": 3}, MOE, "experts by EP", "EP=2"),
        ({"ep": 2}, DENSE, "no experts", "EP=1"),
        ({"tp": 2, "ep": 2, "sp": False}, MOE, "sequence parallelism", "SP=1"),
        ({"tp": 2, "pp": 2, "world": 6}, MOE, "the world divides", "WORLD=4"),
        ({"tp": 2, "sp": False}, MOE, "sequence parallelism", "SP=1"),
        ({"pp": 8}, MOE, "has a layer", "PP=4"),
        ({"engine_ep": 2}, MOE, "engine's EP divides its TP", "ENGINE_TP=2"),
        ({"engine_tp": 3}, MOE, "engine's TP", "ENGINE_TP=2"),
    ],
)
def test_a_violation_says_the_rule_and_what_works(
    wrong: dict[str, int], model: ModelSizes, rule: str, remedy: str
) -> None:
    violations = Topology(**wrong).violations(model)
    assert any(rule in v.rule and remedy in v.remedy for v in violations), violations


def test_all_violations_come_at_once() -> None:
    assert len(Topology(tp=3, pp=3, ep=3, engine_tp=3, engine_ep=2).violations(MOE)) >= 5


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="pp=0"):
        Topology(pp=0)
    with pytest.raises(UsageError, match="world=-4"):
        Topology(world=-4)
    with pytest.raises(UsageError, match="rank 0 has no place"):
        Topology(tp=4, world=2).coordinates(0)


@pytest.mark.parametrize(
    ("pp", "vpp", "stages"), [(1, 1, (4,)), (2, 1, (3, 1)), (2, 2, (1, 1, 2, 0)), (2, 1, (0, 4))]
)
def test_a_layout_has_every_layer_once(pp: int, vpp: int, stages: tuple[int, ...]) -> None:
    chunks = Topology(pp=pp, vpp=vpp, stages=stages).provider_fields()["pipeline_model_parallel_layout"]
    assert [part for chunk in chunks for part in chunk] == ["embedding", *["decoder"] * sum(stages), "loss"]
    assert [chunk.count("decoder") for chunk in chunks] == list(stages)


@given(topologies)
def test_every_rank_has_its_own_coordinates(topology: Topology) -> None:
    places = [topology.coordinates(rank) for rank in range(topology.world)]
    assert len({(p.tp, p.cp, p.dp, p.pp) for p in places}) == topology.world
    assert len({(p.etp, p.ep, p.edp, p.pp) for p in places}) == topology.world
    # A pipeline stage is the same ranks for the dense part and for the experts.
    assert [p.pp for p in places] == sorted(p.pp for p in places)


@given(topologies)
def test_the_smallest_world_divides(topology: Topology) -> None:
    assert not [v for v in topology.violations(MOE) if "world" in v.rule]
