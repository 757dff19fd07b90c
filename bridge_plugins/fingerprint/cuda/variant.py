"""Which kernel, in which shape, takes a block: what is fixed when a kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import (
    ADDRESS,
    COL_BYTES,
    COL_OFFSET,
    COL_STRIDE,
    COLS,
    ROW_BYTES,
    ROWS,
    Table64,
    lies_in_words,
)


@dataclass(frozen=True, slots=True)
class Walk:
    """How a kernel goes through a tile; compiled in.

    Attributes:
        cols: of the tile: words, or elements if not `words`.
        step: rows at a time.
        warps: of a program.
        unroll: steps under way at once.
        words: takes 32-bit words of the tensor, else single elements.
        load: bytes that a load takes: 4, or an element's where a word has to be put together from elements.
        align: words that addresses, row lengths and pitches are multiples of: 4, 2 or 1.
        across: rows lie side by side in memory, as in a transposed store.
        flat: the tile's rows follow each other along one row of the block.
    """

    cols: int
    step: int
    warps: int
    unroll: int = 2
    words: bool = True
    load: int = 4
    align: int = 1
    across: bool = False
    flat: bool = False


@dataclass(frozen=True, slots=True)
class Variant:
    """A walk, and how many rows a tile has."""

    walk: Walk
    rows: int

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and words (or elements) of the block that a tile covers."""
        return (1, self.rows * self.walk.cols) if self.walk.flat else (self.rows, self.walk.cols)


# One warp, so that no barrier is waited for, and several rows under way: what an H200 ran fastest on, of 17 shapes
# (docs/fingerprint.md).
_WIDE: Final = {False: Walk(128, step=1, warps=1, unroll=4), True: Walk(128, step=1, warps=1, unroll=8)}
_WIDE_ROWS: Final = 256
_ROWS_OF_BYTES: Final = 128  # counters of a byte's width hold 255: see `fast.observe_words`
_FLAT: Final = Variant(Walk(128, step=1, warps=1, flat=True), 64)
_NARROW: Final = [
    Variant(Walk(cols, step=128 // cols, warps=1), 16384 // cols) for cols in (2, 4, 8, 16, 32, 64)
]
_BESIDE: Final = Variant(Walk(8, step=32, warps=1, across=True), 1024)
_ALONG: Final = Variant(Walk(128, step=4, warps=4, words=False), 128)
_ACROSS: Final = Variant(Walk(8, step=128, warps=4, words=False), 1024)

# A launch over little memory takes lower tiles: with few of them, each would run alone through all its rows.
_TILES: Final = 4096
_LOWEST: Final = 16
# Bytes from a tile's first element to its last row, or column: offsets inside a tile are 32-bit numbers.
_REACH: Final = 2**30


def variants(
    table: Table64, held: Format, taken: Format, statistics: bool
) -> dict[Variant, NDArray[np.int64]]:
    """Blocks of a table by the variant that takes them; empty blocks by none."""
    width, unit = held.bytes, max(4, held.bytes)
    rows, cols, col_bytes = table[:, ROWS], table[:, COLS], table[:, COL_BYTES]
    row_bytes = np.where(rows == 1, 0, table[:, ROW_BYTES])
    words = -(-cols * width // 4)
    along = lies_in_words(table, width) & (held == taken)
    whole = (cols * width % 4 == 0) & (row_bytes % unit == 0) & (table[:, ADDRESS] % unit == 0)
    align = np.gcd(np.gcd(words, 4), np.gcd(row_bytes, table[:, ADDRESS]) // 4)
    beside = (row_bytes == width) & (table[:, COL_STRIDE] == 1) & (table[:, COL_OFFSET] * width % 4 == 0)
    beside &= (held == taken) & (width <= 4) & (rows >= _BESIDE.walk.step)
    flat = (rows <= 4) & (words >= 1024)
    size = np.searchsorted([variant.walk.cols for variant in _NARROW], words)
    high = _rows(int((rows * words)[along].sum()))
    if width == 1:
        high = min(high, _ROWS_OF_BYTES)
    chosen: dict[Variant, list[int]] = {}
    for index in np.flatnonzero((rows > 0) & (cols > 0)).tolist():
        variant = _ACROSS if abs(row_bytes[index]) < abs(col_bytes[index]) else _ALONG
        if along[index] and (whole[index] or width < 4):
            how = (4, int(align[index])) if whole[index] else (width, 1)
            by_words = _dense(bool(flat[index]), int(size[index]), high, *how, statistics)
            if flat[index] or by_words.rows * row_bytes[index] < _REACH:
                variant = by_words
        elif beside[index] and 4 * _BESIDE.walk.cols * col_bytes[index] < _REACH:
            variant = replace(_BESIDE, walk=replace(_BESIDE.walk, load=width))
        chosen.setdefault(variant, []).append(index)
    return {variant: np.array(indices) for variant, indices in chosen.items()}


@cache
def _dense(flat: bool, size: int, high: int, load: int, align: int, statistics: bool) -> Variant:
    """The variant for rows that are runs of words. A tile wider than the rows would mostly wait."""
    if flat:
        variant = replace(_FLAT, rows=min(_FLAT.rows, high))
    elif size < len(_NARROW):
        variant = _NARROW[size]
    else:
        variant = Variant(_WIDE[statistics], high)
    # A load of a part of a word is one of several for it that are under way.
    unroll = max(1, variant.walk.unroll * load // 4)
    return replace(variant, walk=replace(variant.walk, load=load, align=align, unroll=unroll))


def _rows(words: int) -> int:
    """Rows of a wide tile in a launch over that many words."""
    rows = words // (_TILES * _WIDE[True].cols)
    return min(_WIDE_ROWS, max(_LOWEST, 1 << rows.bit_length() >> 1))
