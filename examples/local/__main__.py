"""A model of your own on this machine: torchrun and one SGLang server, without a framework, on GPUs or on the CPU.

python -m examples.local /models/Qwen3-0.6B --dry-run
"""

from __future__ import annotations

import sys

from bridge_plugins.topology import Topology
from examples import plan
from examples.plan import Asked, Plan

TOPOLOGY = Topology(tp=2, pp=1, ep=1, engine_tp=1)

#: Fields of a topology, by the option of `examples.bridge_mode` that sets each.
OPTIONS = {
    f"--{name.replace('_', '-')}": name
    for name in ("tp", "pp", "vpp", "cp", "ep", "etp", "world", "engine_tp", "engine_ep")
}


def local(asked: Asked) -> Plan:
    """The demo's launcher and ranks, with this model and these sizes."""
    asked.without_contract("this example")
    sizes = [
        word for option, name in OPTIONS.items() for word in (option, str(getattr(asked.topology, name)))
    ]
    command = (sys.executable, "-m", "examples.bridge_mode", "--model", str(asked.model), *sizes)
    # Audit and readback are in the trainer's own code here: nothing is left to a variable.
    environment = dict(asked.follows.environment)
    return Plan(
        (*command, *asked.more),
        "bridge_plugins.load(), in the trainer's own code; the engine's plugin by SGLang's entry point",
        {"launcher": environment, "trainer": environment, "engine": {"BRIDGE_READBACK": "1"}},
    )


if __name__ == "__main__":
    plan.run(local, TOPOLOGY, colocated=False)
