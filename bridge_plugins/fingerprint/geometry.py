"""Where the elements of many blocks lie in memory and in their tensors: what a kernel needs, as a table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bridge_plugins.fingerprint.part import Block

FIELDS: Final = 9
ADDRESS, ROW_BYTES, COL_BYTES, ROWS, COLS, ROW_OFFSET, ROW_STRIDE, COL_OFFSET, COL_STRIDE = range(FIELDS)

Table64 = NDArray[np.int64]


def geometry(blocks: Iterable[Block]) -> Table64:
    """One row per block, int64: its address; bytes from row to row and column to column; sizes; place."""
    rows = []
    for block in blocks:
        view, box, width = block.view, block.box, block.held.bytes
        steps = view.stride()
        rows.append(
            (
                *(view.data_ptr(), steps[0] * width, steps[1] * width, *box.size),
                *(box.offset[0], box.stride[0], box.offset[1], box.stride[1]),
            )
        )
    return np.array(rows, np.int64).reshape(-1, FIELDS)


def lies_in_words(table: Table64, width: int) -> NDArray[np.bool_]:
    """Whether each block's rows are runs of whole 32-bit words of its tensor, but for their last bytes.

    True for neighbouring columns in memory and in the tensor that begin at a word of the tensor.
    """
    dense: NDArray[np.bool_] = (table[:, COL_BYTES] == width) & (table[:, COL_STRIDE] == 1) | (
        table[:, COLS] == 1
    )
    dense &= table[:, COL_OFFSET] * width % 4 == 0
    return dense
