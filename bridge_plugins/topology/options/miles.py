"""miles' and slime's options (``miles/utils/arguments.py``, ``slime/utils/arguments.py``; read in 2026-08).

They take Megatron's flags as they are and SGLang's with ``--sglang-`` in front. The engine's TP isn't among these: it is the
number of GPUs of an engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridge_plugins.errors import UsageError
from bridge_plugins.topology.options import flags, megatron, sglang
from bridge_plugins.topology.sizes import Topology

_PREFIX = "--sglang-"
_CLUSTER: flags.Numbers = {
    ("--actor-num-nodes",): "nodes",
    ("--actor-num-gpus-per-node",): "gpus",
    ("--rollout-num-gpus",): "rollout_gpus",
    ("--rollout-num-gpus-per-engine",): "engine_gpus",
}


def to_options(topology: Topology) -> list[str]:
    """The options. Raises `UsageError` for a pipeline in the engine: their engines' TP is all of an engine's GPUs."""
    if topology.engine_pp > 1:
        raise UsageError(
            f"miles and slime give all GPUs of an engine to its TP, not ENGINE_PP={topology.engine_pp}; try ENGINE_PP=1"
        )
    nodes, gpus = topology.machines
    return [
        *("--actor-num-nodes", str(nodes), "--actor-num-gpus-per-node", str(gpus)),
        *megatron.to_options(topology),
        *("--rollout-num-gpus", str(topology.engines * topology.engine_gpus)),
        *("--rollout-num-gpus-per-engine", str(topology.engine_gpus)),
        *sglang.to_options(topology, prefix=_PREFIX, left_out=("engine_tp",)),
    ]


def from_options(options: Sequence[str]) -> Topology:
    """Read `options` of a whole command line, of which those that set no size are left alone.

    Raises `UsageError` as the parts' readers do, and for engines that don't share out the rollout's GPUs.
    """
    cluster = flags.read(options, _CLUSTER)
    engine_gpus = cluster.engine_gpus or 1
    rollout = cluster.rollout_gpus or engine_gpus
    if rollout % engine_gpus:
        raise UsageError(
            f"--rollout-num-gpus {rollout} is no multiple of --rollout-num-gpus-per-engine {engine_gpus}"
        )
    gpus = cluster.gpus or 8
    return Topology(
        **megatron.fields(options),
        **{**sglang.fields(options, prefix=_PREFIX), "engine_tp": engine_gpus},
        world=(cluster.nodes or 1) * gpus if cluster.gpus else 0,
        engines=rollout // engine_gpus,
        node_gpus=max(gpus, 8),
    )
