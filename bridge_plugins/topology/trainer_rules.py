"""What Megatron asks of a trainer's sizes."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bridge_plugins.topology.model_sizes import ModelSizes
from bridge_plugins.topology.sizes import Topology
from bridge_plugins.topology.violation import Violation, divides, nearest


def trainer_violations(topology: Topology, model: ModelSizes) -> Iterator[Violation]:
    """The rules of a trainer that `topology` breaks for `model`."""
    yield from _world(topology)
    yield from divides("attention heads by TP", "TP", topology.tp, model.heads, "heads")
    yield from divides("key-value heads by TP", "TP", topology.tp, model.kv_heads, "kv heads")
    yield from divides("the feed-forward size by TP", "TP", topology.tp, model.ffn, "ffn")
    yield from _pipeline(topology, model)
    yield from _experts(topology, model)
    if topology.sp and topology.tp == 1:
        yield Violation("sequence parallelism cuts what TP leaves whole", "SP, TP=1", "SP=0, or TP=2")


def _world(topology: Topology) -> Iterator[Violation]:
    dense = topology.tp * topology.cp * topology.pp
    expert = topology.etp * topology.ep * topology.pp
    if topology.world % dense or topology.world % expert:
        both = math.lcm(dense, expert)
        below = max(topology.world // both * both, both)
        works = dict.fromkeys((below, below + both if below < topology.world else below))
        yield Violation(
            "the world divides into dense replicas (TP·CP·PP) and expert replicas (ETP·EP·PP)",
            f"WORLD={topology.world}, TP·CP·PP={dense}, ETP·EP·PP={expert}",
            " or ".join(f"WORLD={world}" for world in works),
        )
    elif topology.world > topology.node_gpus and topology.world % topology.node_gpus:
        whole = math.lcm(dense, expert, topology.node_gpus)
        below = topology.world // whole * whole
        yield Violation(
            "the world fills whole machines",
            f"WORLD={topology.world}, GPUs of a machine={topology.node_gpus}",
            " or ".join(f"WORLD={world}" for world in (below, below + whole) if world),
        )


def _pipeline(topology: Topology, model: ModelSizes) -> Iterator[Violation]:
    chunks = topology.pp * topology.vpp
    evenly = ",".join(str(len(range(chunk, model.layers, chunks))) for chunk in range(chunks))
    if topology.vpp > 1 and topology.pp == 1:
        yield Violation("virtual stages need a pipeline", f"VPP={topology.vpp}, PP=1", "VPP=1, or PP=2")
    if topology.stages:
        # A stage without a layer may hold the embedding or the loss.
        if len(topology.stages) != chunks or sum(topology.stages) != model.layers or min(topology.stages) < 0:
            yield Violation(
                "STAGES gives the layers of each of PP·VPP chunks and sums to the model's",
                f"STAGES={','.join(map(str, topology.stages))}, PP·VPP={chunks}, layers={model.layers}",
                f"STAGES={evenly}",
            )
    elif chunks > model.layers:
        yield Violation(
            "each of PP·VPP chunks has a layer",
            f"PP·VPP={chunks}, layers={model.layers}",
            f"PP={model.layers} VPP=1",
        )
    elif model.layers % chunks:
        works = nearest(
            "PP", topology.pp, lambda n: model.layers % (n * topology.vpp) == 0 or n == 1, most=model.layers
        )
        yield Violation(
            "layers divide evenly over PP·VPP chunks, or STAGES says how",
            f"layers={model.layers}, PP·VPP={chunks}",
            f"STAGES={evenly} or {works}",
        )


def _experts(topology: Topology, model: ModelSizes) -> Iterator[Violation]:
    if not model.experts:
        if topology.ep > 1:
            yield Violation("a dense model has no experts to cut", f"EP={topology.ep}, experts=0", "EP=1")
        return
    yield from divides("experts by EP", "EP", topology.ep, model.experts, "experts")
    yield from divides(
        "the experts' feed-forward size by ETP", "ETP", topology.etp, model.expert_ffn, "expert ffn"
    )
    if topology.tp > 1 and not topology.sp:
        yield Violation(
            "a MoE model with TP>1 needs sequence parallelism",
            f"TP={topology.tp}, EP={topology.ep}, no SP",
            "SP=1",
        )
