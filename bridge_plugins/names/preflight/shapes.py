"""Shapes: a rank's shards against the whole tensor, and the whole tensor against the checkpoint's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bridge_plugins.names.param_name import ParamName
from bridge_plugins.names.preflight.holdings import Held, parameters
from bridge_plugins.names.preflight.report import Finding
from bridge_plugins.names.preflight.simulation import SimulatedRank, become_alone
from bridge_plugins.names.preflight.source import Shape, Source
from bridge_plugins.topology import Topology

Shapes = dict[tuple[int, str], Shape]


def shapes_of(rank: SimulatedRank) -> Shapes:
    """The shapes of what a rank holds, by chunk and local name."""
    return {(chunk, local): tuple(tensor.shape) for chunk, local, tensor in parameters(rank)}


def kinds(shapes: Shapes) -> set[tuple[str, Shape]]:
    """Names without their numbers, and shapes: what a stage adds to those before it."""
    return {(_unnumbered(local), shape) for (_, local), shape in shapes.items()}


def _unnumbered(local: str) -> str:
    return str(ParamName.parse(local).numbered(layer=0, expert=0))


def misfits(shards: Shapes, whole: Shapes, topology: Topology, stage: int) -> Iterator[Finding]:
    """Shards that don't add up: every shape is the whole one, with at most one dimension cut by TP or by ETP."""
    for (chunk, local), shape in shards.items():
        full = whole.get((chunk, local))
        name = ParamName.parse(local)
        size = topology.etp if "experts" in name.parts else topology.tp
        if full is None or not _gathers(shape, full, size, padded=_is_vocabulary(name)):
            yield Finding(
                "SHAPE",
                local,
                f"pipeline stage {stage}, chunk {chunk}",
                f"shards of {shape} at TP {size} of {full}",
            )


def _gathers(shard: Shape, whole: Shape, size: int, *, padded: bool) -> bool:
    if len(shard) != len(whole):
        return False
    cut = [(part, full) for part, full in zip(shard, whole, strict=True) if part != full]
    return not cut or (
        len(cut) == 1 and (cut[0][0] * size == cut[0][1] or (padded and cut[0][0] * size >= cut[0][1]))
    )


def against_checkpoint(rank: SimulatedRank, held: list[Held], source: Source) -> Iterator[Finding | str]:
    """Convert each whole parameter by the bridge's own mapping, on the meta device, and compare HF
    shapes.

    `rank` must be built without tensor parallelism; its world is replaced by one of a single rank.
    Parameters that differ in their numbers alone and have the same shape are converted once. Gives
    findings, and as a text each kind of mapping that can't convert tensors of the meta device.
    """
    become_alone()
    registry = rank.bridge.mapping_registry()
    tensors = {(chunk, local): tensor for chunk, local, tensor in parameters(rank)}
    experts = getattr(rank.models[0].config, "num_moe_experts", None) or 1
    converted: dict[tuple[str, Shape], tuple[Shape | None, ...]] = {}
    for one in held:
        name, tensor = ParamName.parse(one.local), tensors[one.chunk, one.local]
        kind = _unnumbered(one.local), tuple(tensor.shape)
        if kind not in converted and one.hf:
            try:
                converted[kind] = _convert(registry, rank, one, tensor)
            except (
                Exception
            ) as error:  # whatever a mapping does to a tensor may be impossible without its data
                converted[kind] = ()
                yield f"shapes not checked for {kind[0]}: {type(error).__name__}: {error}"
        for hf_name, shape in zip(one.hf, converted.get(kind, ()), strict=False):
            wanted = source.tensors.get(hf_name)
            if wanted is not None and shape is not None and not _same(shape, wanted, experts, one, name):
                yield Finding(
                    "SHAPE", hf_name, f"pipeline stage {one.stage}", f"{shape} from {one.whole}, not {wanted}"
                )


def _convert(registry: Any, rank: SimulatedRank, one: Held, tensor: Any) -> tuple[Shape | None, ...]:
    """The HF shapes of one parameter, in the order of its HF names; None where a mapping waits for the rest."""
    import torch
    from megatron.bridge.models.conversion.utils import get_module_and_param_from_name

    mapping = registry.megatron_to_hf_lookup(one.whole)
    module = get_module_and_param_from_name(rank.models, one.local, one.chunk)[0]
    if not hasattr(module, "config"):
        module.config = rank.models[0].config  # as build_conversion_tasks does
    with torch.device("meta"):
        found = mapping.megatron_to_hf(tensor, module)
    return tuple(tuple(found[name].shape) if found else None for name in one.hf)


def _same(shape: Shape, wanted: Shape, experts: int, one: Held, name: ParamName) -> bool:
    if shape == wanted or [n for n in shape if n != 1] == [n for n in wanted if n != 1]:
        return True
    if one.packed:  # one expert's part of a tensor for all of them
        return math.prod(shape) * experts == math.prod(wanted)
    return _is_vocabulary(name) and shape[1:] == wanted[1:] and shape[0] >= wanted[0]


def _is_vocabulary(name: ParamName) -> bool:
    return any(part in ("embedding", "output_layer") for part in name.parts)
