"""Fingerprints of a table of blocks on the CPU, over several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.cpu.codes import code_of
from bridge_plugins.fingerprint.cpu.columns import RUN, take_columns
from bridge_plugins.fingerprint.cpu.elements import take_elements
from bridge_plugins.fingerprint.cpu.jit import compiled
from bridge_plugins.fingerprint.cpu.tuples import Found, Reading, Rows
from bridge_plugins.fingerprint.cpu.words import take_words
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import ADDRESS, COLS, ROW_BYTES, ROWS, Table64, lies_in_words
from bridge_plugins.fingerprint.measured import Measured

_UNIT: Final = 4 << 20
"""Bytes of a block that one thread takes at once: many times a thread's overhead, and small for balance."""


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pass:
    """How to read every block of a table (see `geometry`) once, worked out once: wherever the blocks lie by then.

    The order of all sums of one block is fixed, on however many threads they are made.
    """

    def __init__(self, table: Table64, held: Format, taken: Format, statistics: bool = True) -> None:
        self._blocks = len(table)
        self._filled = np.flatnonzero((table[:, ROWS] > 0) & (table[:, COLS] > 0))
        self._table = table = table[self._filled]
        self._units, self._starts = _units(table, held.bytes)
        code = code_of(taken)
        self._reading = Reading(held.bytes, taken.bytes, code.code, code.lookup, statistics)
        whole = lies_in_words(table, held.bytes) & (held == taken)
        self._words = np.where(whole, table[:, COLS] * held.bytes // 4, 0)
        self._size = int((table[:, ROWS] * table[:, COLS]).sum()) * held.bytes

    def run(self, addresses: NDArray[np.int64], threads: int | None = None) -> Measured:
        """Read the blocks at these addresses, on so many threads (default: as many as there are cores)."""
        units = len(self._units)
        parts = Measured.empty(units)
        table = self._table.copy()
        table[:, ADDRESS] = addresses[self._filled]

        def work(first: int, last: int) -> None:
            out = (parts.lanes, parts.absmax, parts.sum_of_squares, parts.counts)
            measure_units(table, self._words, self._units, first, last, self._reading, *out)

        threads = min(threads or cores(), self._size // _UNIT + 1) if self._size >= _UNIT else 1
        if threads < 2:
            work(0, units)
        else:
            # A pool of its own for each call: nothing to break when the process forks.
            edges = np.linspace(0, units, min(4 * threads, units) + 1).astype(int).tolist()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, edges[:-1], edges[1:]))
        if units == self._blocks == len(self._filled):
            return parts
        out = Measured.empty(self._blocks)
        if units:
            out.put(self._filled, parts.add_up(self._starts))
        return out


def measure(
    table: Table64, held: Format, taken: Format, *, statistics: bool = True, threads: int | None = None
) -> Measured:
    """Read every block of a table once."""
    return Pass(table, held, taken, statistics).run(table[:, ADDRESS], threads)


def _units(table: Table64, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut blocks into runs of rows: (block, first row, end row) of each unit, and each block's first unit."""
    row_bytes = table[:, COLS] * width
    # Four rows are read at once, and runs of a column where the rows lie side by side.
    least = np.where(table[:, ROW_BYTES] == width, RUN, 4)
    rows_each = np.maximum(least, _UNIT // row_bytes) & ~np.int64(3)
    per_block = -(-table[:, ROWS] // rows_each)
    starts = np.cumsum(per_block) - per_block
    block = np.repeat(np.arange(len(table)), per_block)
    first = (np.arange(len(block)) - starts[block]) * rows_each[block]
    end = np.minimum(first + rows_each[block], table[block, ROWS])
    return np.stack([block, first, end], axis=1), starts


@compiled
def measure_units(
    table: Any,
    words: Any,
    units: Any,
    first: Any,
    last: Any,
    reading: Any,
    lanes: Any,
    absmax: Any,
    squares: Any,
    counts: Any,
) -> Any:
    """Units first … last - 1, each into its own row of the outputs. words: of each block, whole ones of a row."""
    floats = np.empty(2)
    for unit in range(first, last):
        index, start, end = units[unit]
        address, row_bytes, col_bytes, _, cols, row, row_stride, col, col_stride = table[index]
        address += start * row_bytes
        row += start * row_stride
        floats[:] = 0
        found = Found(lanes[unit], floats, counts[unit])
        done = words[index] * 4 // reading.held
        if done:
            whole = Rows(address, row_bytes, col_bytes, end - start, done, row, row_stride, col, col_stride)
            take_words(whole, words[index], reading, found)
        if done < cols:
            address += done * col_bytes
            col += done * col_stride
            rest = Rows(
                address, row_bytes, col_bytes, end - start, cols - done, row, row_stride, col, col_stride
            )
            if row_bytes == reading.held == reading.taken and end - start > 1:
                take_columns(rest, reading, found)
            else:
                take_elements(rest, reading, found)
        absmax[unit], squares[unit] = floats
