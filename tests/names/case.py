"""One topology checked on real ranks: names, what import puts where, and the export of a random checkpoint."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from bridge_plugins.topology import Topology
from tests.names import coded, truth
from tests.names.uneven import build_with
from tests.stacks.trainer import Trainer, build

SHOWN = 3  #: findings of a kind that a report carries


def check(
    checkpoint: str,
    topology: dict[str, Any],
    *,
    layers: int = 4,
    experts: int = 8,
    stock: bool = False,
    off: list[str] | None = None,
    wrapper: str = "",
    exports: bool = True,
    provider: dict[str, Any] | None = None,
    uneven: dict[str, int] | None = None,
    own_config: bool = True,
) -> dict[str, Any]:
    """What is wrong on this rank, by kind (names, import, export); empty lists where nothing is.

    `stock` takes the name patch back, `off` switches plugins off, `wrapper` wraps every decoder layer.
    `uneven` gives the number of experts of layers that have another one, each with its own config or not.
    """
    import torch.distributed as dist

    import bridge_plugins
    from bridge_plugins.plugins import manager

    sizes = Topology(**{**topology, "stages": tuple(topology.get("stages", ()))})
    rank = dist.get_rank()
    patcher = bridge_plugins.load()
    if stock:
        patcher.revert("names")
    for plugin in off or []:
        manager().unregister(name=plugin)
    counts = {int(layer): count for layer, count in (uneven or {}).items()}
    if counts:
        build_with(counts, own_config=own_config)
    trainer = build(checkpoint, sizes, load=False, **(provider or {}))
    if wrapper:
        _wrap_layers(trainer, wrapper)
    names = {
        local: truth.global_name(
            local[1], sizes, rank, local[0], layers=layers, experts=experts, uneven=counts
        )
        for local in _local_names(trainer)
    }
    report = {
        "names": _wrong_names(trainer, names),
        "import": _misplaced(trainer, checkpoint, names),
        "export": changed(trainer, checkpoint) if exports else [],
    }
    return {
        "parameters": len(names),
        **{kind: found[:SHOWN] for kind, found in report.items()},
        "counts": {kind: len(found) for kind, found in report.items()},
    }


def _parameters(trainer: Trainer) -> Any:
    for chunk, model in enumerate(trainer.model):
        for name, parameter in model.named_parameters():
            yield (chunk, trainer.bridge._model_bridge._unwrap_name(name)), parameter


def _local_names(trainer: Trainer) -> list[tuple[int, str]]:
    return [local for local, _ in _parameters(trainer)]


def _wrong_names(trainer: Trainer, names: dict[tuple[int, str], str]) -> list[str]:
    from megatron.bridge.models.conversion import model_bridge

    found = []
    for (chunk, local), wanted in names.items():
        config = trainer.model[0].config
        got = model_bridge._megatron_local_name_to_global(trainer.model, config, local, chunk)
        if got != wanted:
            found.append(f"{local} in chunk {chunk}: {got}, not {wanted}")
    return found


def _misplaced(trainer: Trainer, checkpoint: str, names: dict[tuple[int, str], str]) -> list[str]:
    """Import coded weights, and compare what lies in each parameter with what its true name asks for."""
    hf_names = coded.import_coded(trainer, checkpoint)
    bridge = trainer.bridge._model_bridge
    bridge.hf_pretrained = trainer.bridge.hf_pretrained  # some registries look at what the checkpoint has
    registry = bridge.mapping_registry()
    found = []
    for local, parameter in _parameters(trainer):
        mapping = registry.megatron_to_hf_lookup(names[local])
        assert mapping is not None, f"the bridge has no mapping for {names[local]}"
        wanted = mapping.hf_param
        expected = set(wanted.values()) if isinstance(wanted, dict) else {wanted}
        if expected == {"lm_head.weight"} and "lm_head.weight" not in hf_names:
            expected = {"model.embed_tokens.weight"}  # tied: the embedding stands for both
        held = coded.sources_of(parameter, hf_names)
        if held != expected:
            found.append(f"{names[local]} holds {sorted(held)}, not {sorted(expected)}")
    return found


def changed(trainer: Trainer, checkpoint: str) -> list[str]:
    """Load the random checkpoint, export it, and compare bit for bit on this rank."""
    import torch
    from safetensors.torch import load_file

    _load(trainer, checkpoint)
    source = load_file(f"{checkpoint}/model.safetensors")
    exported = trainer.export()
    return [
        name
        for name in sorted({*source, *exported})
        if name not in source or name not in exported or not torch.equal(source[name], exported[name])
    ]


def _load(trainer: Trainer, checkpoint: str) -> None:
    from megatron.bridge import AutoBridge

    assert Path(checkpoint).is_dir(), checkpoint
    AutoBridge.from_hf_pretrained(checkpoint).load_hf_weights(trainer.model)


def _wrap_layers(trainer: Trainer, wrapper: str) -> None:
    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    class Same(torch.nn.Module):
        """Another class under the same names, with no layer number: what a user's own wrapper may be."""

        def __init__(self, layer: torch.nn.Module) -> None:
            super().__init__()
            self._modules.update(layer._modules)

    wrap = {"checkpoint": checkpoint_wrapper, "same names": Same}[wrapper]
    layers = [model.module.decoder.layers for model in trainer.model]
    for stack, index in itertools.chain.from_iterable(((s, i) for i in range(len(s))) for s in layers):
        stack[index] = wrap(stack[index])
