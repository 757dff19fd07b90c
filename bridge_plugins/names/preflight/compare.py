"""All ranks' names against the checkpoint's: a bijection, or what breaks it and where."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator

from bridge_plugins.names.preflight.holdings import Held
from bridge_plugins.names.preflight.report import Finding
from bridge_plugins.names.preflight.simulation import rank_of
from bridge_plugins.names.preflight.source import Shape, Source
from bridge_plugins.topology import Topology


def compare(held: Iterable[Held], source: Source, topology: Topology) -> Iterator[Finding]:
    """Every finding about names, in the order of Megatron's names, then of HF's.

    Copies that Megatron holds on purpose are no collision: what isn't an expert's is on every
    expert-parallel rank, and word embeddings are on the first and the last stage where they are tied or
    used by MTP.
    """
    owners: dict[str, list[Held]] = defaultdict(list)
    makers: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        if one.error:
            yield Finding("NAMING", one.local, where([one], topology), one.error)
            continue
        owners[one.whole].append(one)
        if not one.hf:
            yield Finding("UNMAPPED", one.whole, where([one], topology), "the bridge has no mapping for it")
        for name in one.hf:
            makers[name].append(one)
    for whole, places in owners.items():
        if len(places) > 1 and not _is_embedding(whole):
            locals_ = sorted({place.local for place in places})
            yield Finding(
                "COLLISION", whole, where(places, topology), f"held under this name as {', '.join(locals_)}"
            )
    for name, places in makers.items():
        if len({place.whole for place in places}) > 1 and not _make_one(places, source.tensors.get(name)):
            yield Finding(
                "COLLISION", name, where(places, topology),
                f"made from {', '.join(sorted({place.whole for place in places}))}",
            )  # fmt: skip
        if name not in source.tensors and not source.is_optional(name):
            yield Finding(
                "EXTRA", name, where(places, topology), f"made from {places[0].whole}; not in the checkpoint"
            )
    for name in source.tensors:
        if name not in makers and not source.is_optional(name):
            yield Finding(
                "GAP", name, "no rank", "in the checkpoint, but nothing is loaded from it or exported to it"
            )


def _make_one(places: list[Held], shape: Shape | None) -> bool:
    """Whether the parameters are parts of one tensor: packed experts, or sizes that add up to the tensor's."""
    if any(place.packed for place in places):
        return True
    parts = {place.whole: place.elements for place in places if len(place.hf) == 1}
    return shape is not None and sum(parts.values()) == math.prod(shape)


def where(places: Iterable[Held], topology: Topology) -> str:
    """Coordinates, and the first rank at each."""
    spots = sorted({(place.stage, place.chunk, place.ep) for place in places})
    shown = [
        f"PP {stage}"
        + (f" chunk {chunk}" if topology.vpp > 1 else "")
        + f" EP {ep} (rank {rank_of(topology, stage, ep)})"
        for stage, chunk, ep in spots
    ]
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _is_embedding(whole: str) -> bool:
    return "embedding" in whole.split(".")
