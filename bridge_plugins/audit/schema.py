"""The names, dtypes and shapes of one stage: worked out once, for version after version they are the same."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from math import prod

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.names import plain
from bridge_plugins.audit.place import Place, place_of
from bridge_plugins.fingerprint.rollup import tensor_key

Shape = tuple[int, ...]
Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)  # by identity: what is found out about one need not be found out again
class Schema:
    """Of each tensor its name, shape, dtype and bytes, in the order in which they came."""

    names: tuple[str, ...]
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...]
    nbytes: tuple[int, ...]

    @staticmethod
    def of(
        names: Sequence[str], shapes: Sequence[Shape], dtypes: Sequence[str], nbytes: Sequence[int]
    ) -> Schema:
        """The very schema of a version before, if it is the same."""
        given = tuple(names), tuple(shapes), tuple(dtypes), tuple(nbytes)
        for schema in _kept:
            if (schema.names, schema.shapes, schema.dtypes, schema.nbytes) == given:
                return schema
        shared = {shape: tuple(shape) for shape in given[1]}  # no torch.Size, and of many tensors few objects
        schema = Schema(given[0], tuple(map(shared.__getitem__, given[1])), *given[2:])
        _kept.append(schema)
        return schema

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def places(self) -> list[Place]:
        """Where each tensor stands in the model."""
        return [place_of(name) for name in self.names]

    @cached_property
    def index(self) -> dict[str, int]:
        """By name; of a name that came more than once the last."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def repeated(self) -> tuple[str, ...]:
        """Names that came more than once."""
        if len(self.index) == len(self.names):
            return ()
        return tuple(name for name, times in Counter(self.names).items() if times > 1)

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """How many each has."""
        return np.array([prod(shape) for shape in self.shapes], np.int64)

    @cached_property
    def keys(self) -> NDArray[np.uint64]:
        """What each one's lanes are multiplied by in the roll-up."""
        facts = zip(self.places, self.dtypes, self.shapes, strict=True)
        return np.array([tensor_key(place.inside, dtype, shape) for place, dtype, shape in facts], np.uint64)

    @cached_property
    def layers(self) -> dict[str, Indices]:
        """The tensors of each layer, in model order."""
        grouped: dict[str, list[int]] = {}
        for index, place in enumerate(self.places):
            grouped.setdefault(place.layer, []).append(index)
        ordered = sorted(grouped.items(), key=lambda layer: self.places[layer[1][0]].sort_key)
        return {layer: np.array(members) for layer, members in ordered}

    @cached_property
    def by_layer(self) -> tuple[Indices, Indices]:
        """All tensors layer by layer, and where each layer begins among them."""
        return joined(list(self.layers.values()))

    @cached_property
    def layer_keys(self) -> dict[str, int]:
        """Of each layer the sum of its tensors' keys: which names, dtypes and shapes it has, whatever their weights are."""
        order, starts = self.by_layer
        sums = np.add.reduceat(self.keys[order], starts).tolist() if len(self) else []
        return dict(zip(self.layers, sums, strict=True))

    @cached_property
    def layer_sizes(self) -> list[tuple[int, int]]:
        """Elements and bytes of each layer."""
        return [
            (sum(prod(self.shapes[i]) for i in members), sum(self.nbytes[i] for i in members))
            for members in (indices.tolist() for indices in self.layers.values())
        ]

    @cached_property
    def manifest(self) -> str:
        """Digest of (name, dtype, shape, bytes) of every tensor in their order."""
        digest = blake2b(digest_size=16)
        for facts in zip(self.names, self.dtypes, self.shapes, self.nbytes, strict=True):
            digest.update("{}\0{}\0{}\0{}\n".format(*facts).encode())
        return digest.hexdigest()


#: Of the stages of the models that are exported at present.
_kept: deque[Schema] = deque(maxlen=8)


def joined(groups: Sequence[Indices]) -> tuple[Indices, Indices]:
    """Groups one after the other, and where each begins: as `reduceat` takes them. None is empty."""
    if not groups:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    ends = np.cumsum([len(group) for group in groups])
    return np.concatenate(groups), ends - [len(group) for group in groups]


@lru_cache(maxsize=8)
def positions(of: Schema, where: Schema) -> Indices:
    """The index of each name of `of` in `where`; -1 for one that isn't there."""
    return np.array([where.index.get(name, -1) for name in of.names], np.int64)


@lru_cache(maxsize=8)
def plain_positions(of: Schema, where: Schema) -> Indices:
    """The same, where the names of `where` are taken without what adapters add to them."""
    index = {plain(name): at for name, at in where.index.items()}
    return np.array([index.get(name, -1) for name in of.names], np.int64)
