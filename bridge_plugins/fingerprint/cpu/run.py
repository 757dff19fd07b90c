"""Fingerprints of a table of blocks on the CPU, over several cores."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.cpu.codes import code_of
from bridge_plugins.fingerprint.cpu.machine_code import measure_units
from bridge_plugins.fingerprint.cpu.units import UNIT, units_of
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import ADDRESS, COLS, ROWS, Table64, lies_in_words
from bridge_plugins.fingerprint.measured import Measured


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
        self._units, self._starts = units_of(table, held.bytes)
        whole = lies_in_words(table, held.bytes) & (held == taken)
        self._words = np.where(whole, table[:, COLS] * held.bytes // 4, 0)
        self._code = code_of(taken)
        where = map(_address, (self._words, self._units, self._code.lookup))
        self._plan = np.array([*where, held.bytes, taken.bytes, self._code.code, statistics], np.int64)
        self._at = _address(self._plan)
        self._size = int((table[:, ROWS] * table[:, COLS]).sum()) * held.bytes

    def run(self, addresses: NDArray[np.int64], threads: int | None = None) -> Measured:
        """Read the blocks at these addresses, on so many threads (default: as many as there are cores)."""
        units = len(self._units)
        table = self._table.copy()
        table[:, ADDRESS] = addresses[self._filled]
        found = np.zeros((units, 8))
        # Once: for a small tensor this takes longer than the rest.
        blocks, out = _address(table), _address(found)

        def work(first: int, last: int) -> None:
            measure_units(self._at, blocks, first, last, out)

        threads = min(threads or cores(), self._size // UNIT + 1) if self._size >= UNIT else 1
        if threads < 2:
            work(0, units)
        else:
            # A pool of its own for each call: nothing to break when the process forks.
            edges = np.linspace(0, units, min(4 * threads, units) + 1).astype(int).tolist()
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, edges[:-1], edges[1:]))
        lanes, counts = found[:, :2].view(np.uint64), found[:, 4:].view(np.int64)
        parts = Measured(lanes, found[:, 2], found[:, 3], counts)
        if units == self._blocks == len(self._filled):
            return parts
        whole = Measured.empty(self._blocks)
        if units:
            whole.put(self._filled, parts.add_up(self._starts))
        return whole


def measure(
    table: Table64, held: Format, taken: Format, *, statistics: bool = True, threads: int | None = None
) -> Measured:
    """Read every block of a table once."""
    return Pass(table, held, taken, statistics).run(table[:, ADDRESS], threads)


def _address(array: NDArray[np.generic]) -> int:
    """Where an array lies; `ctypes.data` takes three times as long. Raises ValueError unless it lies as C has it."""
    return ctypes.addressof(ctypes.c_char.from_buffer(array)) if array.size else 0
