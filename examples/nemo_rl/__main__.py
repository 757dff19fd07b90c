"""Qwen3-30B-A3B on 8 GPUs with NeMo-RL: TP2 PP2 EP2 with sequence parallelism, and 4 engines of TP2 EP2.

python -m examples.nemo_rl /models/Qwen3-30B-A3B --home ~/RL --dry-run
"""

from __future__ import annotations

from bridge_plugins.errors import UsageError
from bridge_plugins.topology import Topology
from bridge_plugins.topology.options import nemo_rl as options
from examples import plan
from examples.plan import Asked, Plan

TOPOLOGY = Topology(tp=2, pp=2, ep=2, etp=1, sp=True, world=8, engine_tp=2, engine_ep=2, engines=4)
PROFILE = "qwen3-30b-a3b"

CONFIG = "examples/configs/grpo_math_1B_sglang.yaml"
BATCH = [
    "grpo.num_prompts_per_step=32",
    "grpo.num_generations_per_prompt=16",
    "policy.train_global_batch_size=512",
    "policy.train_micro_batch_size=1",
    "policy.max_total_sequence_length=4096",
    "policy.generation.sglang_cfg.context_length=4096",
]


def nemo_rl(asked: Asked) -> Plan:
    """GRPO with the Megatron policy: the config's own policy (DTensor) is switched off."""
    asked.without_contract("NeMo-RL")
    if asked.data:
        raise UsageError(
            "NeMo-RL describes its data in its config: hand data.… overrides on instead of --data"
        )
    overrides = [
        *options.to_options(asked.topology),
        f"policy.model_name={asked.model}",
        "policy.dtensor_cfg.enabled=false",
        "policy.optimizer=null",
        f"policy.make_sequence_length_divisible_by={asked.topology.tp}",
        "policy.generation.colocated.enabled=true",
    ]
    command = (
        *("bridge-plugins", "run", "--"),
        *("uv", "run", "--directory", str(asked.home), "examples/run_grpo.py", "--config", CONFIG),
    )
    environment = dict(asked.environment)
    return Plan(
        (*command, *overrides, *BATCH, *asked.more),
        "bridge-plugins run, through PYTHONPATH: NeMo-RL hands its driver's environment to every worker",
        {"launcher": environment, "trainer": environment, "engine": environment},
    )


if __name__ == "__main__":
    plan.run(nemo_rl, TOPOLOGY, PROFILE)
