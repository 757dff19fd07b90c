"""Megatron-LM's flags, as ``megatron.training.arguments`` of megatron-core 0.19 has them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from bridge_plugins.errors import UsageError
from bridge_plugins.topology.options import flags
from bridge_plugins.topology.sizes import Topology

NUMBERS: flags.Numbers = {
    ("--tensor-model-parallel-size",): "tp",
    ("--pipeline-model-parallel-size",): "pp",
    ("--num-virtual-stages-per-pipeline-rank",): "vpp",
    ("--context-parallel-size",): "cp",
    ("--expert-model-parallel-size",): "ep",
    ("--expert-tensor-parallel-size",): "etp",
}
_OTHERS: flags.Numbers = {
    ("--num-layers",): "layers",
    ("--num-layers-per-virtual-pipeline-stage",): "layers_of_a_chunk",
}
_SEQUENCE_PARALLEL = "--sequence-parallel"
_LAYOUT = "--pipeline-model-parallel-layout"


def to_options(topology: Topology) -> list[str]:
    """The flags. The number of ranks is the launcher's (torchrun), not Megatron's."""
    options = []
    for (flag, *_), field in NUMBERS.items():
        size = getattr(topology, field)
        # A layout says how many virtual stages there are, and Megatron takes one of the two.
        if field != "vpp" or (size > 1 and not topology.stages):
            options += [flag, str(size)]
    if topology.sp:
        options.append(_SEQUENCE_PARALLEL)
    if topology.stages:
        options += [_LAYOUT, "|".join(_spell(topology.stages))]
    return options


def from_options(options: Sequence[str], *, world: int = 0) -> Topology:
    """Read `options` of a whole command line, of which those that set no size are left alone.

    Raises `UsageError` for a value that is no number, a layout with anything but embedding, decoder and loss in it, and
    for virtual stages given in layers where the command line doesn't say how many layers there are.
    """
    return Topology(**fields(options), world=world)


def fields(options: Sequence[str]) -> dict[str, Any]:
    """The fields of a `Topology` that Megatron's flags among `options` set."""
    found = flags.read(options, {**NUMBERS, **_OTHERS}, [_SEQUENCE_PARALLEL])
    sizes = {field: getattr(found, field) for field in NUMBERS.values() if getattr(found, field) is not None}
    sizes.setdefault("etp", sizes.get("tp", 1))  # what Megatron takes if it isn't told
    if layout := _layout(options):
        sizes |= _stages(layout, sizes.get("pp", 1))
    elif found.layers_of_a_chunk is not None:
        sizes["vpp"] = _virtual_stages(found, sizes.get("pp", 1))
    return {**sizes, "sp": found.sequence_parallel}


def _layout(options: Sequence[str]) -> str:
    for index, option in enumerate(options):
        if option == _LAYOUT:
            return "".join(options[index + 1 : index + 2])
        if option.startswith(f"{_LAYOUT}="):
            return option.partition("=")[2]
    return ""


def _spell(stages: Sequence[int]) -> list[str]:
    chunks = ["t" * layers for layers in stages]
    chunks[0] = f"E{chunks[0]}"
    chunks[-1] = f"{chunks[-1]}L"
    return chunks


def _stages(layout: str, pp: int) -> dict[str, Any]:
    spelled = layout.replace(",", "")
    for pattern in (r"\(([^)]+)\)\*(\d+)", r"(.)\*(\d+)"):  # Megatron's own short forms: (tt|)*3, t*4
        spelled = re.sub(pattern, lambda match: match[1] * int(match[2]), spelled)
    chunks = spelled.split("|")
    if set(spelled) - set("EtL|") or len(chunks) % pp:
        raise UsageError(
            f"{_LAYOUT} {layout}: expected a multiple of PP={pp} chunks of E, t and L, divided by |; got {len(chunks)}"
        )
    return {"stages": tuple(chunk.count("t") for chunk in chunks), "vpp": len(chunks) // pp}


def _virtual_stages(found: argparse.Namespace, pp: int) -> int:
    chunk, layers = found.layers_of_a_chunk, found.layers
    if layers is None or chunk < 1 or layers % (pp * chunk):
        raise UsageError(
            f"--num-layers-per-virtual-pipeline-stage {chunk} with PP={pp} needs --num-layers, a multiple of "
            f"{pp * max(chunk, 1)}; got {layers}"
        )
    return int(layers) // (pp * int(chunk))
