"""What SGLang asks of an engine's sizes."""

from __future__ import annotations

from collections.abc import Iterator

from bridge_plugins.topology.model_sizes import ModelSizes
from bridge_plugins.topology.sizes import Topology
from bridge_plugins.topology.violation import Violation, divides, nearest


def engine_violations(topology: Topology, model: ModelSizes) -> Iterator[Violation]:
    """The rules of an engine that `topology` breaks for `model`."""
    tp, dp = topology.engine_tp, topology.engine_dp
    if topology.engine_pp > model.layers:
        yield Violation(
            "each stage of an engine has a layer",
            f"ENGINE_PP={topology.engine_pp}, layers={model.layers}",
            f"ENGINE_PP={model.layers}",
        )
    if tp % dp:
        yield Violation(
            "the engine's DP divides its TP (DP attention shares out the same GPUs)",
            f"ENGINE_TP={tp}, ENGINE_DP={dp}",
            nearest("ENGINE_DP", dp, lambda n: tp % n == 0, most=tp),
        )
    else:
        yield from _attention(tp // dp, "ENGINE_TP" if dp == 1 else "ENGINE_TP/ENGINE_DP", model)
    yield from _experts(topology, model)


def _attention(tp: int, name: str, model: ModelSizes) -> Iterator[Violation]:
    yield from divides("attention heads by the engine's TP", name, tp, model.heads, "heads")
    kv = model.kv_heads
    if kv % tp and tp % kv:
        yield Violation(
            "the engine's TP divides the key-value heads or is a multiple of them",
            f"{name}={tp}, kv heads={kv}",
            nearest(name, tp, lambda n: kv % n == 0 or n % kv == 0, most=model.heads),
        )


def _experts(topology: Topology, model: ModelSizes) -> Iterator[Violation]:
    tp, ep, moe_dp = topology.engine_tp, topology.engine_ep, topology.engine_moe_dp
    if tp % (ep * moe_dp):
        name = "EP" if moe_dp == 1 else "EP·MoE-DP"
        least = ep * moe_dp
        yield Violation(
            f"the engine's {name} divides its TP (SGLang counts a GPU once for both)",
            f"ENGINE_TP={tp}, ENGINE_EP={ep}" + (f", MoE-DP={moe_dp}" if moe_dp > 1 else ""),
            nearest("ENGINE_TP", tp, lambda n: n % least == 0 or n == 1, most=tp + least).replace(
                "ENGINE_TP=1 or ", ""
            ),
        )
        return
    if not model.experts:
        yield from divides("the feed-forward size by the engine's TP", "ENGINE_TP", tp, model.ffn, "ffn")
        if ep > 1:
            yield Violation(
                "a dense model has no experts to cut", f"ENGINE_EP={ep}, experts=0", "ENGINE_EP=1"
            )
        return
    if moe_dp > 1 and topology.engine_pp > 1:
        numbers = f"MoE-DP={moe_dp}, ENGINE_PP={topology.engine_pp}"
        yield Violation("an engine with MoE-DP has no pipeline", numbers, "MoE-DP=1 or ENGINE_PP=1")
    if moe_dp > 1 and ep > 1 and ep * moe_dp != tp:
        yield Violation(
            "with EP, the engine's EP·MoE-DP is its TP",
            f"ENGINE_TP={tp}, ENGINE_EP={ep}, MoE-DP={moe_dp}",
            f"ENGINE_TP={ep * moe_dp}",
        )
    yield from divides("experts by the engine's EP", "ENGINE_EP", ep, model.experts, "experts")
    yield from divides(
        "the experts' feed-forward size by ENGINE_TP/ENGINE_EP",
        "ENGINE_TP/ENGINE_EP", topology.engine_expert_tp, model.expert_ffn, "expert ffn",
    )  # fmt: skip
