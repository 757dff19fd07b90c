"""SGLang's server arguments, as ``sglang.srt.server_args`` of sglang 0.5.21 has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.topology.options import flags
from bridge_plugins.topology.sizes import Topology

NUMBERS: flags.Numbers = {
    ("--tp-size", "--tensor-parallel-size"): "engine_tp",
    ("--pp-size", "--pipeline-parallel-size"): "engine_pp",
    ("--ep-size", "--expert-parallel-size", "--ep"): "engine_ep",
    ("--dp-size", "--data-parallel-size"): "engine_dp",
    ("--moe-dp-size", "--moe-data-parallel-size"): "engine_moe_dp",
}
_DP_ATTENTION = "--enable-dp-attention"


def to_options(topology: Topology, *, prefix: str = "--", left_out: Sequence[str] = ()) -> list[str]:
    """The arguments of one engine.

    Args:
        prefix: what stands in front of SGLang's own names; miles and slime have ``--sglang-``.
        left_out: fields that the framework sets itself.
    """
    options = []
    for (flag, *_), field in NUMBERS.items():
        size = getattr(topology, field)
        # SGLang's default is 1 for all of them; TP and EP are said anyway: they are what a person looks for.
        if field not in left_out and (size > 1 or field in ("engine_tp", "engine_ep")):
            options += [flag.replace("--", prefix, 1), str(size)]
    if topology.engine_dp > 1:
        options.append(_DP_ATTENTION.replace("--", prefix, 1))
    return options


def from_options(options: Sequence[str]) -> Topology:
    """Read the arguments of a server: the trainer's sizes are left at 1.

    Raises `UsageError` for a value that is no number, and for data-parallel copies of a whole engine: these are engines.
    """
    return Topology(**fields(options))


def fields(options: Sequence[str], *, prefix: str = "--") -> dict[str, Any]:
    """The fields of a `Topology` that SGLang's arguments among `options` set."""
    numbers = {
        tuple(flag.replace("--", prefix, 1) for flag in spelt): name for spelt, name in NUMBERS.items()
    }
    switch = _DP_ATTENTION.replace("--", prefix, 1)
    found = vars(flags.read(options, numbers, [switch]))
    sizes = {name: found[name] for name in numbers.values() if found[name] is not None}
    if sizes.get("engine_dp", 1) > 1 and not found[switch.removeprefix("--").replace("-", "_")]:
        raise UsageError(
            f"--dp-size {sizes['engine_dp']} without --enable-dp-attention makes copies of the engine: give it as engines"
        )
    return sizes
