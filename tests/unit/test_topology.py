"""The rules that bind sizes, and what each violation tells the user to do."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Contract, ModelSizes, Topology, broken_rules

MOE = ModelSizes(layers=4, heads=8, kv_heads=4, hidden=128, ffn=256, experts=8, expert_ffn=64)
DENSE = ModelSizes(layers=4, heads=8, kv_heads=4, hidden=128, ffn=256)

sizes = st.sampled_from([1, 2, 4])
topologies = st.builds(Topology, tp=sizes, pp=sizes, vpp=st.sampled_from([1, 2]), ep=sizes, etp=sizes)


def test_the_demo_works() -> None:
    topology = Topology(tp=2, pp=2, ep=2)
    assert broken_rules(topology, MOE) == []
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
        ({"engine_tp": 3}, MOE, "engine's TP", "ENGINE_TP=2 or ENGINE_TP=4"),
        ({"tp": 3}, MOE, "attention heads", "TP=2 or TP=4"),
        ({"pp": 3}, MOE, "layers divide evenly", "PP=2 or PP=4"),
        ({"ep": 2, "world": 5}, MOE, "the world divides", "WORLD=4 or WORLD=6"),
        ({"tp": 4, "pp": 3, "world": 12, "stages": (2, 1, 1)}, DENSE, "whole machines", "WORLD=24"),
        ({"world": 12}, DENSE, "whole machines", "WORLD=8 or WORLD=16"),
        ({"tp": 1, "sp": True}, DENSE, "sequence parallelism cuts", "TP=2"),
        ({"engine_pp": 8}, MOE, "each stage of an engine", "ENGINE_PP=4"),
        ({"engine_tp": 4, "engine_dp": 3}, MOE, "the engine's DP divides", "ENGINE_DP=2 or ENGINE_DP=4"),
        ({"engine_tp": 2, "engine_ep": 2, "engine_moe_dp": 2}, MOE, "EP·MoE-DP divides", "ENGINE_TP=4"),
        ({"engine_tp": 8, "engine_ep": 2, "engine_moe_dp": 2}, MOE, "EP·MoE-DP is its TP", "ENGINE_TP=4"),
        ({"engine_tp": 2, "engine_moe_dp": 2, "engine_pp": 2}, MOE, "has no pipeline", "ENGINE_PP=1"),
    ],
)
def test_a_violation_says_the_rule_and_what_works(
    wrong: dict[str, int], model: ModelSizes, rule: str, remedy: str
) -> None:
    violations = broken_rules(Topology(**wrong), model)
    assert any(rule in v.rule and remedy in v.remedy for v in violations), violations


STRICT = Contract("strict_v1", family="qwen3_moe", ep_fits_in_dp=True, same_expert_tp=True)


def test_the_rules_of_a_contract_are_the_contracts_alone() -> None:
    """EP of 4 does not fit in a DP of 1: the source's own run on 8 GPUs would be refused, and so would our demo."""
    verl_run = Topology(tp=4, pp=2, ep=4, etp=1, world=8, engine_tp=4)
    model = ModelSizes(layers=24, heads=16, kv_heads=16, hidden=2048, ffn=5632, experts=60, expert_ffn=1408)
    assert broken_rules(verl_run, model) == []
    assert broken_rules(Topology(tp=2, pp=2, ep=2, engine_tp=2), MOE) == []
    broken = {v.rule.partition(":")[0]: v for v in broken_rules(verl_run, model, STRICT, family="qwen2_moe")}
    assert list(broken) == ["strict_v1 is for one family of models", "strict_v1"]
    both = broken_rules(verl_run, model, STRICT, family="qwen3_moe")
    assert [v.remedy for v in both] == ["EP=1 or WORLD=32", "ENGINE_TP=1"]
    assert "EP=4, DP=1 (WORLD=8 over TP·CP·PP=8)" in both[0].numbers


def test_the_contracts_own_run_keeps_it() -> None:
    run = Topology(tp=2, pp=2, ep=2, etp=1, world=8, engine_tp=2, engine_ep=2, engines=4)
    assert broken_rules(run, MOE, STRICT, family="qwen3_moe") == []


@given(topologies, st.sampled_from([MOE, DENSE]))
def test_one_thing_at_a_time_what_is_advised_works(topology: Topology, model: ModelSizes) -> None:
    for violation in broken_rules(topology, model):
        for advice in violation.remedy.removesuffix(", or PP=2").split(" or "):
            name, _, value = advice.partition("=")
            fields = {
                "WORLD": "world",
                "TP": "tp",
                "EP": "ep",
                "PP": "pp",
                "ETP": "etp",
                "VPP": "vpp",
                "SP": "sp",
            }
            if name not in fields or not value.isdigit():
                continue
            advised = Topology(**{**vars(topology), fields[name]: int(value)})
            assert violation.rule not in [other.rule for other in broken_rules(advised, model)], violation


def test_all_violations_come_at_once() -> None:
    assert len(broken_rules(Topology(tp=3, pp=3, ep=3, engine_tp=3, engine_ep=2), MOE)) >= 5


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
    assert not [v for v in broken_rules(topology, MOE) if "world" in v.rule]


def test_a_config_without_dense_layers_or_with_two_kinds_of_experts_has_sizes() -> None:
    common = {"num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 64, "num_experts": 8}
    shared = SimpleNamespace(**common, moe_intermediate_size=32, shared_expert_intermediate_size=48)
    sizes = ModelSizes.from_hf_config(shared)
    assert (sizes.ffn, sizes.expert_ffn) == (48, 32)
    two_kinds = SimpleNamespace(**common, intermediate_size=96, moe_intermediate_size=[36, 24])
    assert ModelSizes.from_hf_config(two_kinds).expert_ffn == 12
    with pytest.raises(UsageError, match="none of: intermediate_size"):
        ModelSizes.from_hf_config(SimpleNamespace(**common))
