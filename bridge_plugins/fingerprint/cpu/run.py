"""Fingerprints of a table of blocks on the CPU, over several cores."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.cpu.codes import code_of
from bridge_plugins.fingerprint.cpu.elements import take_elements
from bridge_plugins.fingerprint.cpu.jit import compiled
from bridge_plugins.fingerprint.cpu.tuples import Found, Reading, Rows
from bridge_plugins.fingerprint.cpu.words import take_words
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import COLS, ROWS, Table64, lies_in_words
from bridge_plugins.fingerprint.measured import Measured

_UNIT: Final = 4 << 20
"""Bytes of a block that one thread takes at once: many times a thread's overhead, and small for balance."""


def cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def measure(
    table: Table64, held: Format, taken: Format, *, statistics: bool = True, threads: int | None = None
) -> Measured:
    """Read every block of a table (see `geometry`) once.

    The order of all sums of one block is fixed, whatever `threads` (default: as many as there are cores) is.
    """
    out = Measured.empty(len(table))
    filled = np.flatnonzero((table[:, ROWS] > 0) & (table[:, COLS] > 0))
    if not len(filled):
        return out
    table = table[filled]
    units, starts = _units(table, held.bytes)
    parts = Measured.empty(len(units))
    code = code_of(taken)
    reading = Reading(held.bytes, taken.bytes, code.code, code.lookup, statistics)
    words = np.where(lies_in_words(table, held.bytes) & (held == taken), table[:, COLS] * held.bytes // 4, 0)

    def work(first: int, last: int) -> None:
        out = (parts.lanes, parts.absmax, parts.sum_of_squares, parts.counts)
        measure_units(table, words, units, first, last, reading, *out)

    size = int((table[:, ROWS] * table[:, COLS]).sum()) * held.bytes
    threads = min(threads or cores(), size // _UNIT + 1)
    if threads < 2:
        work(0, len(units))
    else:
        # A pool of its own for each call: nothing to break when the process forks.
        edges = np.linspace(0, len(units), min(4 * threads, len(units)) + 1).astype(int).tolist()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, edges[:-1], edges[1:]))
    out.put(filled, parts.add_up(starts))
    return out


def _units(table: Table64, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Cut blocks into runs of rows: (block, first row, end row) of each unit, and each block's first unit."""
    row_bytes = table[:, COLS] * width
    rows_each = np.maximum(4, _UNIT // row_bytes) & ~np.int64(3)
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
            take_elements(rest, reading, found)
        absmax[unit], squares[unit] = floats
