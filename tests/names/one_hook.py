"""What each of the two hooks answers on this rank while the other one is off, and what becomes of names then."""

from __future__ import annotations

from typing import Any

from bridge_plugins.topology import Topology
from tests.names import truth
from tests.stacks.trainer import build


def without_each(checkpoint: str, topology: dict[str, Any], layers: int = 4) -> dict[str, dict[str, Any]]:
    """By the plugin that is off: how many names were refused, and everything that isn't as it must be.

    The hook that is left must give its own number for every name, the other none, and no name may come out wrong.
    """
    from bridge_plugins.plugins import manager

    sizes = Topology(**topology)
    trainer = build(checkpoint, sizes, load=False)
    found = {}
    for off, alive in (("layer_numbers", "expert"), ("expert_numbers", "layer")):
        plugin = manager().unregister(name=off)
        found[off] = _asked(trainer, sizes, layers, alive)
        manager().register(plugin, off)
    return found


def _asked(trainer: Any, sizes: Topology, layers: int, alive: str) -> dict[str, Any]:
    import torch.distributed as dist

    from bridge_plugins.errors import NamingError
    from bridge_plugins.names.context import NameContext
    from bridge_plugins.names.mapping import local_to_global
    from bridge_plugins.names.param_name import ParamName
    from bridge_plugins.plugins import manager

    config, hook = trainer.model[0].config, manager().hook
    asked: dict[str, Any] = {"numbers": 0, "refused": 0, "wrong": []}
    for chunk, model in enumerate(trainer.model):
        context = NameContext(trainer.model, config, chunk)
        for local, _ in model.named_parameters():
            name = ParamName.parse(local)
            whole = truth.global_name(str(name), sizes, dist.get_rank(), chunk, layers=layers, experts=8)
            wanted = ParamName.parse(whole)
            answers = {
                "layer": hook.global_layer_number(name=name, context=context),
                "expert": hook.global_expert_number(name=name, context=context),
            }
            right = {"layer": None, "expert": None, alive: getattr(wanted, alive)}
            asked["numbers"] += right[alive] is not None
            if answers != right:
                asked["wrong"].append(f"{name}: {answers}, not {right}")
            try:
                got = local_to_global(trainer.model, config, str(name), chunk)
            except NamingError:
                asked["refused"] += 1
            else:
                if got != whole:
                    asked["wrong"].append(f"{name}: {got}, not {whole}")
    return asked
