"""The options that we print, read by the parsers of Megatron and of SGLang themselves."""

from __future__ import annotations

from typing import Any

from tests.stacks.ranks import Ranks


def read_by_megatron(options: list[str]) -> dict[str, Any]:
    import argparse

    from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout
    from megatron.training.arguments import add_megatron_arguments

    read = vars(add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False)).parse_args(options))
    stages = read["pipeline_model_parallel_layout"]
    pp = read["pipeline_model_parallel_size"]
    layout = PipelineParallelLayerLayout.from_str(stages, pp) if stages else None
    names = (
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size",
        "expert_model_parallel_size", "expert_tensor_parallel_size", "sequence_parallel",
        "num_virtual_stages_per_pipeline_rank", "make_vocab_size_divisible_by", "gradient_accumulation_fusion",
        "batch_invariant_mode",
    )  # fmt: skip
    return {name: read[name] for name in names} | {"stages": _stages_of(layout, pp)}


def _stages_of(layout: Any, pp: int) -> list[int]:
    """Read back by way of a provider's field, which holds Megatron's own object by then."""
    from types import SimpleNamespace

    from bridge_plugins.topology import Topology

    provider = SimpleNamespace(pipeline_model_parallel_layout=layout, pipeline_model_parallel_size=pp)
    return list(Topology.from_provider(provider).stages)


def read_by_sglang(options: list[str]) -> dict[str, Any]:
    import argparse

    from bridge_plugins.patches.cpu.standins import StandInFinder

    StandInFinder("sgl_kernel").__enter__()
    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser(allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    read = vars(parser.parse_args(["--model-path", "x", *options]))
    names = (
        "tp_size", "pp_size", "ep_size", "dp_size", "moe_dp_size", "enable_dp_attention",
        "enable_deterministic_inference", "attention_backend",
    )  # fmt: skip
    return {name: read[name] for name in names}


def read(ranks: Ranks, by: str, options: list[str]) -> dict[str, Any]:
    (result,) = ranks(f"tests.trainer_layout.test_options:read_by_{by}", backend=None, options=options)
    found: dict[str, Any] = result
    return found


def test_megatron_reads_our_flags(ranks: Ranks) -> None:
    from bridge_plugins.launch.flags import settings
    from bridge_plugins.launch.profiles import read_profile
    from bridge_plugins.topology import Topology
    from bridge_plugins.topology.options import megatron

    profile = read_profile("qwen3-30b-a3b")
    run = Topology(tp=2, pp=2, ep=2, etp=1, world=8, engine_tp=2, engine_ep=2, engines=4)
    assert read(ranks, "megatron", list(settings(run, profile, profile.contract).trainer)) == {
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 2,
        "context_parallel_size": 1,
        "expert_model_parallel_size": 2,
        "expert_tensor_parallel_size": 1,
        "sequence_parallel": True,
        "num_virtual_stages_per_pipeline_rank": None,
        "make_vocab_size_divisible_by": 1,
        "gradient_accumulation_fusion": False,
        "batch_invariant_mode": True,
        "stages": [],
    }
    uneven = Topology(pp=2, vpp=2, stages=(1, 0, 2, 1))
    assert read(ranks, "megatron", megatron.to_options(uneven))["stages"] == [1, 0, 2, 1]
    virtual = read(ranks, "megatron", megatron.to_options(Topology(pp=2, vpp=3)))
    assert virtual["num_virtual_stages_per_pipeline_rank"] == 3


def test_sglang_reads_our_arguments(ranks: Ranks) -> None:
    from bridge_plugins.launch.contracts import read_contract
    from bridge_plugins.topology import Topology
    from bridge_plugins.topology.options import sglang

    flags = read_contract("qwen3_moe_true_on_policy_v1").engine.flags
    topology = Topology(engine_tp=8, engine_pp=2, engine_ep=4, engine_dp=2, engine_moe_dp=2)
    assert read(ranks, "sglang", [*sglang.to_options(topology), *flags]) == {
        "tp_size": 8,
        "pp_size": 2,
        "ep_size": 4,
        "dp_size": 2,
        "moe_dp_size": 2,
        "enable_dp_attention": True,
        "enable_deterministic_inference": True,
        "attention_backend": "fa3",
    }
