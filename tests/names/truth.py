"""What names must be, counted from the topology alone: no module, no process group, no bridge is asked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from bridge_plugins.names.param_name import ParamName
from bridge_plugins.topology import Topology


def layers_of_chunks(topology: Topology, layers: int) -> list[range]:
    """The decoder layers of each chunk in model order."""
    chunks = topology.pp * topology.vpp
    sizes = topology.stages or (layers // chunks,) * chunks
    starts = [sum(sizes[:chunk]) for chunk in range(chunks)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def global_name(
    local: str,
    topology: Topology,
    rank: int,
    chunk: int,
    *,
    layers: int,
    experts: int,
    uneven: Mapping[int, int] = MappingProxyType({}),
) -> str:
    """The whole model's name for what `rank` calls `local` in its `chunk`-th virtual stage.

    A layer has as many experts as `uneven` says, or else `experts`.
    """
    name = ParamName.parse(local)
    here = topology.coordinates(rank)
    layer, expert = name.layer, name.expert
    if layer is not None and "decoder" in name.parts and "vision_model" not in name.parts:
        # Chunk c of every stage comes before chunk c + 1 of any: Megatron's interleaved order.
        layer = layers_of_chunks(topology, layers)[chunk * topology.pp + here.pp][layer]
    if expert is not None:
        expert += here.ep * (uneven.get(layer or 0, experts) // topology.ep)
    return str(name.numbered(layer=layer, expert=expert))
