"""Qwen3-30B-A3B on 8 GPUs with miles, true on policy: TP2 PP2 EP2 with sequence parallelism, and 4 engines of TP2 EP2.

python -m examples.miles /models/Qwen3-30B-A3B --data prompts.jsonl --home ~/miles --dry-run
"""

from __future__ import annotations

from pathlib import Path

from bridge_plugins.topology import Topology
from examples import plan, ray_job
from examples.plan import Asked, Plan

TOPOLOGY = Topology(tp=2, pp=2, ep=2, etp=1, sp=True, world=8, engine_tp=2, engine_ep=2, engines=4)
PROFILE = "qwen3-30b-a3b"
CONTRACT = "qwen3_moe_true_on_policy_v1"

MODEL_ARGUMENTS = "scripts/models/qwen3-30B-A3B.sh"
BATCH = (
    *("--num-rollout", "100", "--rollout-batch-size", "32", "--n-samples-per-prompt", "8"),
    *("--global-batch-size", "256", "--rollout-max-response-len", "8192", "--rm-type", "math"),
    *("--use-dynamic-batch-size", "--max-tokens-per-gpu", "20480"),
    *("--advantage-estimator", "grpo", "--lr", "1e-6"),
)


def miles(asked: Asked) -> Plan:
    """The job, with miles' own switches for its side of the contract."""
    name = Path(asked.contract).stem  # of a file of the user's own; miles must know a contract of that name
    contract = (
        *("--true-on-policy-mode", "--deterministic-mode", "--true-on-policy-contract", name),
        *("--transformer-impl", "local", "--use-cpu-initialization"),
        *("--sglang-true-on-policy-contract", name),
    )
    return ray_job.plan(asked, MODEL_ARGUMENTS, [*BATCH, *(contract if asked.contract else ())])


if __name__ == "__main__":
    plan.run(miles, TOPOLOGY, PROFILE, CONTRACT)
