"""Known faults of a local-to-global name function, each a small case that shows whether one has it.

The function runs in a made-up world, in one process: stage 1 of 2 holds two layers, 2 and 3 of the whole, and
expert-parallel rank 1 of 2 holds four experts, 4 to 7 of the whole. So a probe needs no process group.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

NameFunction = Callable[..., str]


class Group:
    """A process group of two as rank 1 sees it; `broken` is a wrapper whose inner group is destroyed for now."""

    def __init__(self, *, broken: bool = False) -> None:
        self.broken = broken

    def rank(self) -> int:
        if self.broken:
            raise AttributeError("'NoneType' object has no attribute 'rank'")
        return 1

    def size(self) -> int:
        if self.broken:
            raise AttributeError("'NoneType' object has no attribute 'size'")
        return 2


WHOLE = Group()
BROKEN = Group(broken=True)


@dataclass(frozen=True)
class World:
    """What differs from the usual world in a fault's case."""

    experts: int | None = 8  #: as the config says
    local_experts: int = 4  #: as the layer has them
    wrapped: bool = False  #: layers are wrapped in something that isn't Megatron's
    pp: Group | None = WHOLE
    ep: Group | None = WHOLE


@dataclass(frozen=True)
class Fault:
    """A fault by its letter, and the case that shows it."""

    letter: str
    text: str
    local: str
    whole: str
    world: World = World()

    def found_in(self, function: NameFunction) -> bool:
        """Whether `function` gives another name than it should here, or raises."""
        config = SimpleNamespace(num_moe_experts=self.world.experts)
        try:
            return _in_world(function, self.world)([_model(self.world)], config, self.local, 0) != self.whole
        except Exception:  # raising for such a name is the fault, whatever it raises
            return True


_LAYER = "decoder.layers.{}"
_GROUPED = "decoder.layers.{}.mlp.experts.linear_fc1"
_SEQUENTIAL = "decoder.layers.{}.mlp.experts.local_experts.{}.linear_fc1"


def _fault(
    letter: str, text: str, name: str, here: tuple[int, ...], whole: tuple[int, ...], **world: Any
) -> Fault:
    return Fault(letter, text, name.format(*here), name.format(*whole), World(**world))


FAULTS = (
    _fault("A", "adapters of SequentialMLP experts keep their local number",
           _SEQUENTIAL + ".adapter.linear_in.weight", (1, 2), (3, 6)),
    _fault("B", "SequentialMLP experts keep their local number", _SEQUENTIAL + ".weight", (1, 2), (3, 6)),
    _fault("C", "a wrapped layer keeps its local number",
           _LAYER + ".mlp.router.weight", (1,), (3,), wrapped=True),
    _fault("D", "every 'layers.N.' in a name is renumbered", _LAYER + ".merger_layers.1.weight", (1,), (3,)),
    _fault("E", "fails for a part that ends in 'layers'", "decoder.sublayers.0.weight", (), ()),
    _fault("F", "fails without config.num_moe_experts", _GROUPED + ".weight{}", (1, 2), (3, 6), experts=None),
    _fault("G", "experts keep their local number where pg_collection.ep is None",
           _GROUPED + ".weight{}", (1, 2), (3, 6), ep=None),
    _fault("H", "fails for an expert's parameter without a number",
           _GROUPED + ".weight_quantizer._amax", (1,), (3,)),
    _fault("I", "fails for a process group that is destroyed for now",
           _LAYER + ".mlp.router.weight", (1,), (3,), pp=BROKEN, ep=BROKEN),
    _fault("J", "counts a layer's experts by the config",
           _GROUPED + ".weight{}", (1, 1), (3, 3), local_experts=2),
)  # fmt: skip


def faults_of(function: NameFunction) -> list[Fault]:
    """The known faults that `function` has, by letter."""
    return [fault for fault in FAULTS if fault.found_in(function)]


def _in_world(function: NameFunction, world: World) -> NameFunction:
    """The same code with the groups of `world` where it looks for them among its own module's names."""
    if not isinstance(function, types.FunctionType) or function.__module__.startswith("bridge_plugins"):
        return function
    groups: dict[str, Any] = {
        "_get_pp_group": lambda _: world.pp,
        "_get_ep_group": lambda _: world.ep,
        "parallel_state": SimpleNamespace(
            get_pipeline_model_parallel_group=lambda: world.pp,
            get_expert_model_parallel_group=lambda: world.ep,
        ),
        "get_pg_size": lambda group: 1 if group is None else group.size(),
    }
    return types.FunctionType(
        function.__code__,
        {**function.__globals__, **groups},
        None,
        function.__defaults__,
        function.__closure__,
    )


def _model(world: World) -> Any:
    import torch

    layers = [_layer(2, world), _layer(3, world)]
    model = torch.nn.Module()
    model.pg_collection = SimpleNamespace(pp=world.pp, ep=world.ep)  # type: ignore[assignment]
    model.decoder = torch.nn.Module()
    model.decoder.layers = torch.nn.ModuleList(_wrap(layer) if world.wrapped else layer for layer in layers)
    model.decoder.sublayers = torch.nn.ModuleList([torch.nn.Identity()])
    return model


def _layer(number: int, world: World) -> Any:
    import torch

    layer = _megatron_module()
    layer.layer_number = number + 1  # Megatron counts layers from 1
    layer.merger_layers = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Identity()])
    layer.mlp = torch.nn.Module()
    layer.mlp.local_expert_indices = [world.local_experts + index for index in range(world.local_experts)]
    layer.mlp.experts = torch.nn.Module()
    return layer


def _wrap(layer: Any) -> Any:
    """As checkpoint wrappers do: another class, the same names."""
    import torch

    wrapper = torch.nn.Module()
    wrapper._modules.update(layer._modules)
    wrapper.layer_number = layer.layer_number
    return wrapper


@functools.cache
def _class() -> Any:
    import torch
    from megatron.core.transformer.module import MegatronModule

    def without_config(self: Any) -> None:
        torch.nn.Module.__init__(self)

    return type("Layer", (MegatronModule,), {"__init__": without_config})


def _megatron_module() -> Any:
    return _class()()
