"""What a rank of the engine answers to a readback: the values that both sides agree on.

`layers` is asked first: two digests per layer, some kilobytes a rank. `records` follows for the layers that differ.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

# A reply comes from outside: nothing is counted up to a number that no cluster has.
Rank = Annotated[int, msgspec.Meta(ge=0, lt=1 << 16)]
World = Annotated[int, msgspec.Meta(ge=1, le=1 << 16)]

#: What one layer takes in `Layers.digests`.
LAYER_BYTES = 16 + 8 + 1


class Layers(msgspec.Struct, frozen=True):
    """What one rank holds, layer by layer.

    Attributes:
        rank: its number in the engine's world of `world` ranks.
        agreed: a digest of what the ranks agreed on, the same on all of them; empty if they could not.
        digests: see `pack`.
        compared: bytes of this rank's memory that lie in some HF tensor.
        served: bytes of all parameters of this rank, and of all else that its loader writes.
        untold, derived: how many HF tensors and own tensors it can't tell; `Answer` has the reasons.
        role, stages: ``target`` or a draft's; pipeline stages of that world.
        drafts: draft models beside the target in this process, whether they are asked or not.
        names: the layers, in the order of `digests`. From rank 0 alone, as `keys`.
        keys: per layer, the sum of the keys N(t) of the HF tensors in it that the ranks hold whole, modulo 2**64.
    """

    rank: Rank
    world: World
    agreed: str
    digests: bytes
    compared: int
    served: int
    untold: int
    derived: int
    role: str = "target"
    stages: int = 1
    drafts: int = 0
    names: list[str] = []
    keys: list[int] = []


class Held(msgspec.Struct, frozen=True):
    """An HF tensor, or a part of one, that a rank holds.

    `box`: (rows, columns, row offset, column offset, row stride, column stride) of its place in the HF tensor. `lanes`:
    its fingerprint, taken as `dtype`; `lossy`: elements that `dtype` can't hold exactly. `absmax`, `squares` (their sum),
    `zeros` and `nonfinite`: facts about the values. `path`: of the engine's own tensor.
    """

    lanes: tuple[int, int]
    box: tuple[int, int, int, int, int, int]
    dtype: str
    lossy: int = 0
    absmax: float = 0.0
    squares: float = 0.0
    zeros: int = 0
    nonfinite: int = 0
    path: str = ""


class Answer(msgspec.Struct, frozen=True):
    """What one rank holds of the layers that were asked for, by HF name; and what it can't tell, and why.

    A rank may hold a part more than once: each copy is told. `untold` is by HF name, `derived` by the path of the engine's
    own tensor (see `layout.probe.Layout`); both are of all layers.
    """

    rank: Rank
    world: World
    tensors: dict[str, tuple[Held, ...]]
    untold: dict[str, str] = {}
    derived: dict[str, str] = {}
    role: str = "target"
    stages: int = 1


class Stages(msgspec.Struct, frozen=True):
    """Replies of ranks that the server's own reply leaves out (other pipeline stages), as far as they are there."""

    replies: dict[int, str]
    role: str = "target"
    stages: int = 1


def pack(primary: NDArray[np.uint64], replicas: NDArray[np.uint64], open_parts: NDArray[np.uint8]) -> bytes:
    """Digests of L layers as bytes, little-endian.

    Args:
        primary: L × 2, the two lanes of digest P.
        replicas: L, digest X.
        open_parts: L; parts that are in neither digest, 255 for more.
    """
    return (
        primary.astype("<u8").tobytes() + replicas.astype("<u8").tobytes() + open_parts.astype("u1").tobytes()
    )


def unpack(digests: bytes) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint8]]:
    """What `pack` packed. Raises ValueError if the length fits no number of layers."""
    layers, rest = divmod(len(digests), LAYER_BYTES)
    if rest:
        raise ValueError(f"{len(digests)} bytes of digests are of no whole number of layers")
    primary = np.frombuffer(digests, "<u8", 2 * layers).reshape(layers, 2)
    replicas = np.frombuffer(digests, "<u8", layers, 16 * layers)
    return primary, replicas, np.frombuffer(digests, "u1", layers, 24 * layers)
