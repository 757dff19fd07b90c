"""A topology in every framework's words: what is printed is read back, and the source runs' command lines are theirs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Topology
from bridge_plugins.topology.options import megatron, miles, nemo_rl, sglang, verl

size = st.sampled_from([1, 2, 4])


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    engine = {
        "engine_tp": draw(size) * 4,
        "engine_ep": draw(size),
        "engine_dp": draw(size),
        "engine_moe_dp": draw(size),
    }
    whole = Topology(tp=draw(size), pp=draw(size), cp=draw(size), ep=draw(size), etp=draw(size), **engine)
    machines = max(whole.world // 8, 1)
    return Topology(**{**vars(whole), "world": whole.world if machines == 1 else machines * 8})


def fields(topology: Topology, *left_out: str) -> dict[str, Any]:
    return {name: value for name, value in vars(topology).items() if name not in left_out}


#: The run on Qwen1.5-MoE-A2.7B: 8 GPUs, and an engine on 4 of them.
MOE_A27B = Topology(tp=4, pp=2, ep=4, etp=1, world=8, engine_tp=4, engine_ep=1, engines=2)
#: The run on Qwen3-30B-A3B: 8 GPUs, and 4 engines of 2.
A3B = Topology(tp=2, pp=2, ep=2, etp=1, world=8, engine_tp=2, engine_ep=2, engines=4)
ENGINE = ("engine_tp", "engine_ep", "engine_dp", "engine_moe_dp", "engine_pp", "engines", "node_gpus")


@given(topologies(), st.integers(0, 2))
def test_megatron_reads_what_it_prints(topology: Topology, more: int) -> None:
    uneven = tuple(range(more, more + topology.pp)) if more else ()
    topology = Topology(**{**vars(topology), "stages": uneven})
    read = megatron.from_options(["--lr", "1e-6", *megatron.to_options(topology)], world=topology.world)
    assert fields(read, *ENGINE) == fields(topology, *ENGINE)


@given(topologies())
def test_sglang_reads_what_it_prints(topology: Topology) -> None:
    read = sglang.from_options(["--model-path", "x", *sglang.to_options(topology)])
    assert [getattr(read, name) for name in ENGINE[:5]] == [getattr(topology, name) for name in ENGINE[:5]]


@given(topologies(), size)
def test_miles_and_slime_read_what_they_print(topology: Topology, engines: int) -> None:
    topology = Topology(**{**vars(topology), "engines": engines})
    assert miles.from_options(miles.to_options(topology)) == topology


@given(topologies())
def test_nemo_rl_reads_what_it_prints(topology: Topology) -> None:
    assert nemo_rl.from_options(nemo_rl.to_options(topology)) == topology


@given(topologies())
def test_verl_reads_what_it_prints(topology: Topology) -> None:
    topology = Topology(**{**vars(topology), "engine_dp": min(topology.engine_dp, topology.engine_tp)})
    for role in (verl.ACTOR, verl.REFERENCE, verl.CRITIC):
        options = verl.to_options(topology, roles=[role])
        read = verl.from_options(options, role=role)
        assert fields(read, "engines") == fields(topology, "engines")


@pytest.mark.parametrize("stages", [(3, 4, 4, 3), (3, 2), (5, 3, 2)])
def test_verl_is_told_the_first_and_the_last_stage(stages: tuple[int, ...]) -> None:
    topology = Topology(pp=len(stages), stages=stages, engine_tp=2)
    assert verl.from_options(verl.to_options(topology), layers=sum(stages)).stages == stages
    with pytest.raises(UsageError, match="don't share out unknown layers"):
        verl.from_options(verl.to_options(topology))


@pytest.mark.parametrize("options", [verl, nemo_rl])
def test_what_a_framework_can_not_say_is_an_error(options: Any) -> None:
    with pytest.raises(UsageError, match="STAGES"):
        options.to_options(Topology(pp=4, stages=(1, 3, 2, 2)))
    with pytest.raises(UsageError, match="ENGINE_PP=2"):
        miles.to_options(Topology(engine_pp=2))


def test_the_miles_run() -> None:
    assert " ".join(miles.to_options(A3B)) == (
        "--actor-num-nodes 1 --actor-num-gpus-per-node 8 "
        "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --context-parallel-size 1 "
        "--expert-model-parallel-size 2 --expert-tensor-parallel-size 1 --sequence-parallel "
        "--rollout-num-gpus 8 --rollout-num-gpus-per-engine 2 --sglang-ep-size 2"
    )


def test_the_verl_run() -> None:
    options = verl.to_options(MOE_A27B, roles=(verl.ACTOR, verl.REFERENCE, verl.CRITIC))
    for role in ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"):
        assert f"{role}.megatron.tensor_model_parallel_size=4" in options
        assert f"{role}.megatron.pipeline_model_parallel_size=2" in options
        assert f"{role}.megatron.virtual_pipeline_model_parallel_size=null" in options
        assert f"{role}.megatron.expert_model_parallel_size=4" in options
        assert f"{role}.megatron.expert_tensor_parallel_size=1" in options
    assert "actor_rollout_ref.rollout.tensor_model_parallel_size=4" in options
    assert verl.from_options(options, role=verl.CRITIC) == MOE_A27B


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (
            "--tensor-model-parallel-size 4",
            {"tp": 4, "etp": 4, "sp": False},
        ),  # Megatron's own default for ETP
        (
            "--pipeline-model-parallel-size=2 --num-layers 8 --num-layers-per-virtual-pipeline-stage 2",
            {"pp": 2, "vpp": 2},
        ),
        (
            "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ettt|tL",
            {"stages": (3, 1), "vpp": 1},
        ),
        (
            "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout=E|(t|)*2,t*3L",
            {"stages": (0, 1, 1, 3), "vpp": 2},
        ),
    ],
)
def test_megatrons_other_spellings(flags: str, expected: dict[str, Any]) -> None:
    read = megatron.from_options(flags.split())
    assert {name: getattr(read, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("read", "said"),
    [
        (lambda: megatron.from_options(["--tensor-model-parallel-size", "two"]), "invalid int value: 'two'"),
        (
            lambda: megatron.from_options(["--num-layers-per-virtual-pipeline-stage", "3"]),
            "needs --num-layers",
        ),
        (lambda: megatron.from_options(["--pipeline-model-parallel-layout", "EtmL"]), "E, t and L"),
        (lambda: sglang.from_options(["--dp-size", "2"]), "without --enable-dp-attention"),
        (lambda: verl.from_options(["trainer.nnodes=all"]), "trainer.nnodes=all: expected a number"),
        (
            lambda: miles.from_options(["--rollout-num-gpus", "6", "--rollout-num-gpus-per-engine", "4"]),
            "--rollout-num-gpus 6 is no multiple",
        ),
    ],
)
def test_what_can_not_be_read_says_which_option(read: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read()


@given(topologies(), st.booleans())
def test_a_providers_fields_are_read_back(topology: Topology, uneven: bool) -> None:
    stages = tuple(range(1, topology.pp * 2 + 1)) if uneven and topology.pp > 1 else ()
    topology = Topology(**{**vars(topology), "stages": stages, "vpp": 2 if stages else 1})
    provider = SimpleNamespace(**topology.provider_fields())
    assert fields(Topology.from_provider(provider, world=topology.world), *ENGINE) == fields(
        topology, *ENGINE
    )
