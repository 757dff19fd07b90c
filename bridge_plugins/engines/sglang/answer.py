"""What a rank of the engine answers to a readback: the values that both sides agree on."""

from __future__ import annotations

import msgspec


class Held(msgspec.Struct, frozen=True):
    """One copy of an HF tensor, or a part of one, that a rank holds.

    `boxes`: (rows, columns, row offset, column offset, row stride, column stride) of each part's place in the HF
    tensor. `lanes`: their summed fingerprint, taken as `dtype`; `lossy`: elements that `dtype` can't hold exactly.
    """

    lanes: tuple[int, int]
    boxes: tuple[tuple[int, int, int, int, int, int], ...]
    dtype: str
    lossy: int = 0


class Answer(msgspec.Struct, frozen=True):
    """All that one rank holds, by HF name: usually one copy of each; and what it can't tell, and why.

    `untold` is by HF name, `derived` by the path of the engine's own tensor (see `layout.probe.Layout`).
    """

    rank: int
    world: int
    tensors: dict[str, tuple[Held, ...]]
    untold: dict[str, str] = {}
    derived: dict[str, str] = {}
