"""verl's Hydra overrides (``verl/trainer/config/engine/megatron.yaml``, ``…/rollout/rollout.yaml``; read in 2026-08).

Rollout TP there counts without DP: SGLang is started with ``tp_size = TP * DP``. Uneven stages are told as the layers of the
first and the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.topology.options import overrides
from bridge_plugins.topology.sizes import Topology

ACTOR, REFERENCE, CRITIC = "actor_rollout_ref.actor", "actor_rollout_ref.ref", "critic"

_TRAINER = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "virtual_pipeline_model_parallel_size": "vpp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "expert_tensor_parallel_size": "etp",
}
_ROLLOUT = "actor_rollout_ref.rollout"
_MOE_DP = f"{_ROLLOUT}.engine_kwargs.sglang.moe_dp_size"
_FIRST, _LAST = "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage"


def to_options(topology: Topology, *, roles: Sequence[str] = (ACTOR, REFERENCE)) -> list[str]:
    """The overrides, for the Megatron models of `roles` and for the rollout.

    Raises `UsageError` for stages that verl can't be told: others than the first and the last one of different sizes.
    """
    nodes, gpus = topology.machines
    options = [f"trainer.nnodes={nodes}", f"trainer.n_gpus_per_node={gpus}"]
    for role in roles:
        for key, field in _TRAINER.items():
            size = getattr(topology, field)
            options.append(f"{role}.megatron.{key}={'null' if field == 'vpp' and size == 1 else size}")
        options.append(f"{role}.megatron.sequence_parallel={bool(topology.sp)}")
        options += [
            f"+{role}.megatron.override_transformer_config.{k}={n}" for k, n in _uneven(topology).items()
        ]
    return [
        *options,
        f"{_ROLLOUT}.name=sglang",
        f"{_ROLLOUT}.tensor_model_parallel_size={topology.engine_tp // topology.engine_dp}",
        f"{_ROLLOUT}.pipeline_model_parallel_size={topology.engine_pp}",
        f"{_ROLLOUT}.expert_parallel_size={topology.engine_ep}",
        f"{_ROLLOUT}.data_parallel_size={topology.engine_dp}",
        *([f"+{_ROLLOUT}.engine_kwargs.sglang.enable_dp_attention=True"] if topology.engine_dp > 1 else []),
        *([f"+{_MOE_DP}={topology.engine_moe_dp}"] if topology.engine_moe_dp > 1 else []),
    ]


def from_options(options: Sequence[str], *, role: str = ACTOR, layers: int = 0) -> Topology:
    """Read overrides; of the trainer those of `role`. The rollout has the trainer's GPUs (they are colocated).

    Args:
        layers: of the model, which uneven stages are counted from.

    Raises `UsageError` for a value that is no number, and for uneven stages without `layers`.
    """
    values = overrides.read(options)
    sizes: dict[str, Any] = {
        field: overrides.number(values, f"{role}.megatron.{key}", 1) for key, field in _TRAINER.items()
    }
    # null is as much as TP
    sizes["etp"] = overrides.number(values, f"{role}.megatron.expert_tensor_parallel_size", sizes["tp"])
    sizes["sp"] = sizes["tp"] > 1 and overrides.truth(values, f"{role}.megatron.sequence_parallel", True)
    gpus = overrides.number(values, "trainer.n_gpus_per_node", 8)
    dp = overrides.number(values, f"{_ROLLOUT}.data_parallel_size", 1)
    world = overrides.number(values, "trainer.nnodes", 1) * gpus
    tp = overrides.number(values, f"{_ROLLOUT}.tensor_model_parallel_size", 2) * dp
    pp = overrides.number(values, f"{_ROLLOUT}.pipeline_model_parallel_size", 1)
    return Topology(
        **sizes,
        stages=_stages(values, f"{role}.megatron.override_transformer_config", sizes["pp"], layers),
        world=world,
        node_gpus=max(gpus, 8),
        engine_tp=tp,
        engine_pp=pp,
        engine_ep=overrides.number(values, f"{_ROLLOUT}.expert_parallel_size", 1),
        engine_dp=dp,
        engine_moe_dp=overrides.number(values, _MOE_DP, 1),
        engines=max(world // (tp * pp), 1),
    )


def _uneven(topology: Topology) -> dict[str, int]:
    stages = topology.stages
    if not stages:
        return {}
    if topology.vpp > 1 or len(stages) < 2 or len(set(stages[1:-1])) > 1:
        raise UsageError(
            "verl knows a first and a last stage of their own sizes, not "
            f"STAGES={','.join(map(str, stages))} VPP={topology.vpp}"
        )
    return {_FIRST: stages[0], _LAST: stages[-1]}


def _stages(values: dict[str, str], config: str, pp: int, layers: int) -> tuple[int, ...]:
    first, last = (overrides.number(values, f"{config}.{key}", 0) for key in (_FIRST, _LAST))
    if not (first or last):
        return ()
    inner = (
        [stage for stage, given in enumerate([first, *[0] * (pp - 2), last]) if not given] if pp > 1 else []
    )
    rest = layers - first - last
    if not layers or pp < 2 or (rest % len(inner) if inner else rest):
        raise UsageError(
            f"{_FIRST}={first} and {_LAST}={last} with PP={pp} don't share out {layers or 'unknown'} layers"
        )
    each = rest // len(inner) if inner else 0
    return tuple(given or each for given in [first, *[0] * (pp - 2), last])
