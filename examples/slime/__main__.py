"""Qwen3-30B-A3B on 8 GPUs with slime: TP2 PP2 EP2 with sequence parallelism, and 4 engines of TP2 EP2.

python -m examples.slime /models/Qwen3-30B-A3B --data prompts.jsonl --home ~/slime --dry-run
"""

from __future__ import annotations

from bridge_plugins.topology import Topology
from examples import plan, ray_job
from examples.plan import Asked, Plan

TOPOLOGY = Topology(tp=2, pp=2, ep=2, etp=1, sp=True, world=8, engine_tp=2, engine_ep=2, engines=4)
PROFILE = "qwen3-30b-a3b"

MODEL_ARGUMENTS = "scripts/models/qwen3-30B-A3B.sh"
BATCH = [
    *("--num-rollout", "100", "--rollout-batch-size", "8", "--n-samples-per-prompt", "4"),
    *("--global-batch-size", "32", "--rollout-max-response-len", "8192", "--rm-type", "deepscaler"),
    *("--use-dynamic-batch-size", "--max-tokens-per-gpu", "20480"),
    *("--advantage-estimator", "grpo", "--lr", "1e-6"),
]


def slime(asked: Asked) -> Plan:
    return ray_job.plan(asked, MODEL_ARGUMENTS, BATCH)


if __name__ == "__main__":
    plan.run(slime, TOPOLOGY, PROFILE)
