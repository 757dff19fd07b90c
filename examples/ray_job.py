"""miles and slime: a job for a Ray cluster that runs already, with variables for every process of it."""

from __future__ import annotations

import json
import shlex

from bridge_plugins.launch.frameworks import MEGATRON_INIT
from bridge_plugins.topology.options import miles
from examples.plan import Asked, Plan

DASHBOARD = "http://127.0.0.1:8265"
PLUGINS = (
    f"{MEGATRON_INIT}, called on each rank after Megatron's own initialisation (--custom-megatron-init-path)"
)


def plan(asked: Asked, model_arguments: str, own: list[str]) -> Plan:
    """The job.

    Args:
        model_arguments: the file of the framework's checkout that sets MODEL_ARGS, Megatron's flags for this model.
        own: options beyond those that both frameworks share.
    """
    start = str(asked.checkpoint or asked.model)
    options = [
        *miles.to_options(asked.topology),
        "--colocate",
        *asked.trainer_flags,
        *(flag.replace("--", "--sglang-", 1) for flag in asked.engine_flags),
        *("--hf-checkpoint", str(asked.model), "--ref-load", start),
        *("--megatron-to-hf-mode", "bridge"),
        *("--custom-megatron-init-path", MEGATRON_INIT),
        *(("--prompt-data", str(asked.data)) if asked.data else ()),
        *("--input-key", "prompt", "--label-key", "label", "--apply-chat-template"),
        *own,
        *asked.more,
    ]  # fmt: skip
    # The model's flags are an array in a shell file of theirs: nothing of it is repeated here.
    home, arguments = shlex.quote(str(asked.home)), shlex.quote(model_arguments)
    script = f'cd {home} && . {arguments} && exec python3 train.py "${{MODEL_ARGS[@]}}" "$@"'
    environment = dict(asked.environment)
    runtime = json.dumps({"env_vars": environment})
    command = ("ray", "job", "submit", f"--address={DASHBOARD}", f"--runtime-env-json={runtime}", "--")
    return Plan(
        (*command, "bash", "-c", script, "train.py", *options),
        PLUGINS,
        {"trainer": environment, "engine": environment},
    )
