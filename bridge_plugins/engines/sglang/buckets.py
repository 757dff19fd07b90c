"""A stream cut into buckets, so that what the engine's loader joins is never cut in two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from bridge_plugins.audit.place import place_of

NamedTensors = list[tuple[str, Tensor]]

#: Projections that SGLang's loaders may join within one call only: the one that came alone would be dropped.
JOINED = (
    frozenset({"q_a_proj", "kv_a_proj_with_mqa"}),
    frozenset({"gate_proj", "up_proj"}),
    frozenset({"w1", "w3"}),
)


@dataclass(frozen=True)
class Companions:
    """What a tensor must travel with: what has the same `key`. This one is its `member`, and `wants` are others of it."""

    key: str
    member: str
    wants: frozenset[str]


def companions(name: str, tensor: Tensor) -> Companions:
    """The companions of an HF tensor, by its name: one module's parameters, and the modules that are loaded as one."""
    module, _, parameter = name.rpartition(".")
    parent, _, last = module.rpartition(".")
    joined = next((projections for projections in JOINED if last in projections), None)
    key = f"{parent}.{'+'.join(sorted(joined))}" if joined else module
    wants = joined or frozenset()
    if "scale" in parameter:
        return Companions(key, f"{last} scale", wants | {last})
    if tensor.dtype.is_floating_point and tensor.element_size() == 1:
        wants |= {f"{last} scale"}  # an fp8 weight is nothing without its scale
    return Companions(key, last, wants)


def buckets(stream: Iterable[tuple[str, Tensor]], nbytes: int) -> Iterator[NamedTensors]:
    """Cut `stream` into buckets of about `nbytes`; each is given away as soon as it is full.

    A tensor whose companion has not come yet waits for it, until the stream is in another layer: then there is none.
    """
    bucket = _Bucket()
    for name, tensor in stream:
        found, layer = companions(name, tensor), place_of(name).layer
        if bucket.filled >= nbytes and found.key not in bucket.keys_at_end():
            full, bucket = bucket.split(layer)
            if full:
                yield full
            del full  # or two buckets would be held while the next one fills
        bucket.add(name, tensor, found, layer)
        del tensor
    if bucket.items:
        yield [item for item, _, _ in bucket.items]


class _Bucket:
    def __init__(self) -> None:
        self.items: list[tuple[tuple[str, Tensor], Companions, str]] = []
        self.filled = 0

    def add(self, name: str, tensor: Tensor, found: Companions, layer: str) -> None:
        self.items.append(((name, tensor), found, layer))
        self.filled += tensor.nbytes

    def keys_at_end(self) -> set[str]:
        """The companions that came last: more of them may come next."""
        return {found.key for _, found, _ in self.items[-1:]}

    def split(self, layer: str) -> tuple[NamedTensors, _Bucket]:
        """What can go, and a bucket of what waits for a companion that `layer` may still bring."""
        members: dict[str, set[str]] = {}
        wants: dict[str, set[str]] = {}
        for _, found, _ in self.items:
            members.setdefault(found.key, set()).add(found.member)
            wants.setdefault(found.key, set()).update(found.wants)
        go: NamedTensors = []
        rest = _Bucket()
        for item, found, its_layer in self.items:
            if its_layer == layer and wants[found.key] - members[found.key]:
                rest.add(*item, found, its_layer)
            else:
                go.append(item)
        return go, rest
