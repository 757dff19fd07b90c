"""The linear roll-up: tensors to layers, layers to the model. Terms add over shards, ranks and in any order.

layer = Σ over its tensors  N(t) · F(t)  mod 2^64        N(t): odd key of (name in the layer, dtype, shape)
model = Σ over its layers   N(l) · layer(l)  mod 2^64    N(l): odd key of the layer's name
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from bridge_plugins.fingerprint.keys import MASK64, VERSION


@dataclass(frozen=True, slots=True)
class Digest:
    """Two lanes below 2**64. `+` is modulo 2**64, so digests of parts add up to the digest of the whole."""

    lanes: tuple[int, int] = (0, 0)

    def __add__(self, other: Digest) -> Digest:
        return Digest(((self.lanes[0] + other.lanes[0]) & MASK64, (self.lanes[1] + other.lanes[1]) & MASK64))

    def __radd__(self, other: int) -> Digest:
        """`sum(digests)` starts with 0."""
        if other != 0:
            return NotImplemented
        return self

    def __str__(self) -> str:
        return f"{self.lanes[0]:016x}{self.lanes[1]:016x}"


def tensor_key(name: str, dtype: str, shape: Sequence[int]) -> int:
    """N(t): an odd number below 2**64 from BLAKE2b. Kept: version after version has the same tensors.

    Args:
        name: the tensor's HF name inside its layer: the same weights in another layer give the same term.
        dtype: as in `Fingerprint.dtype`.
        shape: of the whole HF tensor.
    """
    return _tensor_key(name, dtype, tuple(shape))


@lru_cache(1 << 17)
def _tensor_key(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    return _key("tensor", name, dtype, "x".join(map(str, shape)))


def layer_key(name: str) -> int:
    """N(l): an odd number below 2**64 from BLAKE2b of the layer's name."""
    return _key("layer", name)


def tensor_term(name: str, dtype: str, shape: Sequence[int], lanes: tuple[int, int]) -> Digest:
    """What a tensor, or a part of one, adds to its layer's digest."""
    return _times(tensor_key(name, dtype, shape), lanes)


def layer_term(name: str, layer: Digest) -> Digest:
    """What a layer, or a part of one, adds to its model's digest."""
    return _times(layer_key(name), layer.lanes)


def _key(*fields: str) -> int:
    # NUL ends each field, so that no two lists of fields spell the same bytes.
    spelled = "".join(field + "\0" for field in (f"bridge_plugins.fingerprint.v{VERSION}", *fields))
    return int.from_bytes(hashlib.blake2b(spelled.encode(), digest_size=8).digest(), "little") | 1


def _times(key: int, lanes: tuple[int, int]) -> Digest:
    return Digest(((key * lanes[0]) & MASK64, (key * lanes[1]) & MASK64))
