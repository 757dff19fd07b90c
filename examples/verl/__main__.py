"""Qwen1.5-MoE-A2.7B on 8 GPUs with verl: TP4 PP2 EP4 ETP1, rollout TP4, from a torch_dist checkpoint, with offload.

python -m examples.verl /models/Qwen1.5-MoE-A2.7B --checkpoint /ckpt/qwen_tp4_pp2_ep4_etp1 --data train.parquet --dry-run
"""

from __future__ import annotations

from bridge_plugins.checkpoints.paths import RELEASE
from bridge_plugins.launch.frameworks import EXTERNAL_LIB
from bridge_plugins.topology import Topology
from bridge_plugins.topology.options import verl as options
from examples import plan
from examples.plan import Asked, Plan

TOPOLOGY = Topology(tp=4, pp=2, ep=4, etp=1, sp=True, world=8, engine_tp=4, engines=2)
PROFILE = "qwen1.5-moe-a2.7b"

ROLES = (options.ACTOR, options.REFERENCE, options.CRITIC)
BATCH = [
    "data.train_batch_size=128",
    "data.max_prompt_length=512",
    "data.max_response_length=512",
    "actor_rollout_ref.actor.ppo_mini_batch_size=128",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.actor.use_kl_loss=True",
    "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=2",
    "actor_rollout_ref.rollout.gpu_memory_utilization=0.6",
    "critic.ppo_micro_batch_size_per_gpu=2",
    "algorithm.adv_estimator=gae",
    "trainer.logger=[console]",
    "trainer.total_epochs=1",
]


def verl(asked: Asked) -> Plan:
    """PPO with a critic: every one of the three Megatron models is loaded, cut and offloaded in the same way."""
    asked.without_contract("verl")
    overrides = [
        *options.to_options(asked.topology, roles=ROLES),
        f"actor_rollout_ref.model.path={asked.model}",
        f"critic.model.path={asked.model}",
        f"actor_rollout_ref.model.external_lib={EXTERNAL_LIB}",
        f"critic.model.external_lib={EXTERNAL_LIB}",
        *([f"data.train_files={asked.data}", f"data.val_files={asked.data}"] if asked.data else []),
    ]
    for role in ROLES:
        # With vanilla_mbridge the weights leave through another package, and nothing here would see them.
        overrides += [f"{role}.megatron.use_mbridge=True", f"{role}.megatron.vanilla_mbridge=False"]
        overrides.append(f"{role}.megatron.param_offload=True")
        if "--no-gradient-accumulation-fusion" in asked.trainer_flags:
            overrides.append(
                f"+{role}.megatron.override_transformer_config.gradient_accumulation_fusion=False"
            )
        if asked.checkpoint:
            path = f"{role}.megatron.dist_checkpointing_path={asked.checkpoint / RELEASE}"
            overrides += [f"{role}.megatron.use_dist_checkpointing=True", path]
    environment = dict(asked.environment)
    # Quoted: Ray takes strings alone, and Hydra would make a number of 1.
    overrides += [f"+ray_kwargs.ray_init.runtime_env.env_vars.{k}='{v}'" for k, v in environment.items()]
    command = ("python3", "-m", "verl.trainer.main_ppo", "--config-name=ppo_megatron_trainer.yaml")
    return Plan(
        (*command, *overrides, *BATCH, *asked.more),
        f"{EXTERNAL_LIB}, imported by each worker before it builds its model (model.external_lib)",
        {"trainer": environment, "engine": environment},
    )


if __name__ == "__main__":
    plan.run(verl, TOPOLOGY, PROFILE)
