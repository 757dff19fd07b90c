"""Which kernel, in which shape, takes a block: what is fixed when a kernel is compiled."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.formats import Format, Kind
from bridge_plugins.fingerprint.geometry import (
    ADDRESS,
    COL_BYTES,
    COLS,
    ROW_BYTES,
    ROWS,
    Table64,
    lies_in_words,
)


@dataclass(frozen=True, slots=True)
class Shape:
    """A tile: `rows` × `cols` (words, or elements for the element kernel), `step` rows at a time."""

    rows: int
    cols: int
    step: int
    warps: int
    unroll: int = 2


@dataclass(frozen=True, slots=True)
class Variant:
    """A kernel's compile-time side: by words (aligned to 16 bytes or not) or by elements, and its tile."""

    by_words: bool
    aligned: bool
    shape: Shape


# One warp, so that no barrier is waited for, and several rows under way: what an H200 ran fastest on, of 17 shapes
# (docs/fingerprint.md).
_WIDE: Final = {
    False: Shape(rows=256, cols=128, step=1, warps=1, unroll=4),
    True: Shape(rows=256, cols=128, step=1, warps=1, unroll=8),
}
# A launch over little memory takes lower tiles: with few of them, each would run alone through all its rows.
_TILES: Final = 4096
_LOWEST: Final = 16
_FLAT: Final = Shape(rows=4, cols=1024, step=1, warps=4)
_NARROW: Final = {
    cols: Shape(rows=16384 // cols, cols=cols, step=512 // cols, warps=2) for cols in (4, 16, 64)
}
_ALONG: Final = Shape(rows=128, cols=128, step=4, warps=4)
_ACROSS: Final = Shape(rows=1024, cols=8, step=128, warps=4)

# Offsets inside a tile are 32-bit numbers.
_LONGEST_ROW: Final = 2**31 // 256


def variants(
    table: Table64, held: Format, taken: Format, statistics: bool
) -> dict[Variant, NDArray[np.int64]]:
    """Blocks of a table by the variant that takes them; empty blocks by none."""
    width = held.bytes
    row_bytes, words = table[:, ROW_BYTES], table[:, COLS] * width // 4
    whole = (table[:, COLS] * width % 4 == 0) & (row_bytes % max(4, width) == 0) | (table[:, ROWS] == 1)
    whole &= (table[:, COLS] * width % 4 == 0) & (table[:, ADDRESS] % max(4, width) == 0)
    short = (row_bytes >= 0) & (row_bytes < _LONGEST_ROW) | (table[:, ROWS] == 1)
    by_words = lies_in_words(table, width) & whole & short & (held == taken)
    aligned = (table[:, ADDRESS] % 16 == 0) & (words % 4 == 0)
    aligned &= (row_bytes % 16 == 0) | (table[:, ROWS] == 1)
    across = np.abs(row_bytes) < np.abs(table[:, COL_BYTES])
    filled = (table[:, ROWS] > 0) & (table[:, COLS] > 0)
    wide = _wide(int((table[:, ROWS] * words)[by_words].sum()), statistics)
    chosen: dict[Variant, list[int]] = {}
    columns = (by_words, aligned, words, table[:, ROWS], across)
    for index, (in_words, is_aligned, length, rows, is_across) in enumerate(zip(*columns, strict=True)):
        if not filled[index]:
            continue
        if in_words:
            variant = Variant(True, bool(is_aligned), _words_shape(int(rows), int(length), wide))
        else:
            variant = Variant(False, False, _ACROSS if is_across else _ALONG)
        chosen.setdefault(variant, []).append(index)
    return {variant: np.array(indices) for variant, indices in chosen.items()}


def _wide(words: int, statistics: bool) -> Shape:
    """The tile for long rows in a launch over that many words."""
    shape = _WIDE[statistics]
    rows = words // (_TILES * shape.cols)
    return replace(shape, rows=min(shape.rows, max(_LOWEST, 1 << rows.bit_length() >> 1)))


def _words_shape(rows: int, words: int, wide: Shape) -> Shape:
    """The tile for rows of that many words: a tile wider than the rows would mostly wait."""
    if rows <= _FLAT.rows and words >= _FLAT.cols:
        return _FLAT
    return next((shape for cols, shape in _NARROW.items() if words <= cols), wide)


def constants(taken: Format) -> dict[str, object]:
    """How a kernel reads a format."""
    return {"BITS": taken.bits, "KIND": taken.kind.name, "MANTISSA": taken.mantissa, "BIAS": taken.bias}


def limit(taken: Format) -> float:
    """Numbers at or above this, in the fast statistics, mean that a tile needs the exact ones.

    There lie Inf and NaN as `words_tile` reads them, and float32 numbers whose squares might overflow.
    """
    top = 2.0 ** min(taken.bias + 1, 50)
    if taken.kind in (Kind.SIGNED, Kind.UNSIGNED):
        return 2.0**50
    return top if taken.kind is Kind.IEEE or taken.bias >= 50 else (2.0 - 2.0**-taken.mantissa) * top
