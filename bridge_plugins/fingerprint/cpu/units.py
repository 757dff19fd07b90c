"""Blocks cut into runs of rows, each for one thread at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.geometry import COLS, ROW_BYTES, ROWS, Table64

UNIT: Final = 4 << 20
"""Bytes of a block that one thread takes at once: many times a thread's overhead, and small for balance."""
RUN: Final = 512
"""Rows of a transposed store that are read at once: their sums stay in the first-level cache."""


def units_of(table: Table64, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(block, first row, end row) of each unit, and each block's first unit. width: of an element, bytes."""
    row_bytes = table[:, COLS] * width
    # Four rows are read at once, and runs of a column where the rows lie side by side.
    least = np.where(table[:, ROW_BYTES] == width, RUN, 4)
    rows_each = np.maximum(least, UNIT // row_bytes) & ~np.int64(3)
    per_block = -(-table[:, ROWS] // rows_each)
    starts = np.cumsum(per_block) - per_block
    block = np.repeat(np.arange(len(table)), per_block)
    first = (np.arange(len(block)) - starts[block]) * rows_each[block]
    end = np.minimum(first + rows_each[block], table[block, ROWS])
    return np.stack([block, first, end], axis=1), starts
