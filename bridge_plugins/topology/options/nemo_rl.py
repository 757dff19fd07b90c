"""NeMo-RL's overrides (``examples/configs/grpo_math_1B.yaml``, ``…_sglang.yaml``; read in 2026-08).

Its engines are colocated with the trainer or have GPUs of their own; here they have the trainer's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.topology.options import overrides
from bridge_plugins.topology.sizes import Topology

_MEGATRON, _SGLANG = "policy.megatron_cfg", "policy.generation.sglang_cfg"
_TRAINER = {
    "tensor_model_parallel_size": "tp",
    "pipeline_model_parallel_size": "pp",
    "context_parallel_size": "cp",
    "expert_model_parallel_size": "ep",
    "expert_tensor_parallel_size": "etp",
}
_ENGINE = {"tp_size": "engine_tp", "pp_size": "engine_pp", "ep_size": "engine_ep", "dp_size": "engine_dp"}


def to_options(topology: Topology) -> list[str]:
    """The overrides. Raises `UsageError` for virtual and uneven stages: NeMo-RL has no option for them."""
    if topology.vpp > 1 or topology.stages:
        raise UsageError(f"NeMo-RL has no option for VPP and STAGES: {topology}; try VPP=1 and even stages")
    nodes, gpus = topology.machines
    return [
        f"cluster.num_nodes={nodes}",
        f"cluster.gpus_per_node={gpus}",
        f"{_MEGATRON}.enabled=true",
        *(f"{_MEGATRON}.{key}={getattr(topology, field)}" for key, field in _TRAINER.items()),
        f"{_MEGATRON}.sequence_parallel={str(bool(topology.sp)).lower()}",
        "policy.generation.backend=sglang",
        *(f"{_SGLANG}.{key}={getattr(topology, field)}" for key, field in _ENGINE.items()),
        *([f"++{_SGLANG}.enable_dp_attention=true"] if topology.engine_dp > 1 else []),
        *([f"++{_SGLANG}.moe_dp_size={topology.engine_moe_dp}"] if topology.engine_moe_dp > 1 else []),
        f"{_SGLANG}.sglang_server_config.num_gpus={topology.engines * topology.engine_gpus}",
        f"{_SGLANG}.sglang_server_config.num_gpus_per_engine={topology.engine_gpus}",
    ]


def from_options(options: Sequence[str]) -> Topology:
    """Read overrides. Raises `UsageError` for a value that is no number."""
    values = overrides.read(options)
    sizes: dict[str, Any] = {
        field: overrides.number(values, f"{section}.{key}", 1)
        for section, keys in ((_MEGATRON, _TRAINER), (_SGLANG, _ENGINE))
        for key, field in keys.items()
    }
    gpus = overrides.number(values, "cluster.gpus_per_node", 1)
    one = overrides.number(
        values, f"{_SGLANG}.sglang_server_config.num_gpus_per_engine", sizes["engine_tp"] * sizes["engine_pp"]
    )
    if one < 1:
        raise UsageError(f"{_SGLANG}.sglang_server_config.num_gpus_per_engine={one}: expected 1 or more")
    return Topology(
        **sizes,
        sp=overrides.truth(values, f"{_MEGATRON}.sequence_parallel", False),
        world=overrides.number(values, "cluster.num_nodes", 1) * gpus,
        node_gpus=max(gpus, 8),
        engine_moe_dp=overrides.number(values, f"{_SGLANG}.moe_dp_size", 1),
        engines=max(overrides.number(values, f"{_SGLANG}.sglang_server_config.num_gpus", one) // one, 1),
    )
