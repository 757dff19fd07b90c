"""Blocks whose columns lie in memory as runs, one below the other: a transposed store, column by column."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from bridge_plugins.fingerprint.cpu.jit import compiled, pointer, room
from bridge_plugins.fingerprint.cpu.lanes import add_row, word_keys
from bridge_plugins.fingerprint.cpu.runs import observe_run
from bridge_plugins.fingerprint.cpu.units import RUN

_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_sums = room(2 * RUN * 8)
_histogram = room(256 * 8)


@compiled
def add_column(run: Any, shift: Any, keys: Any, a0: Any, a1: Any) -> Any:
    """Add 32-bit parts of a column's elements, shifted to the left to their place in a word, times its keys."""
    key_0, key_1 = keys[0] & _LOW, keys[1] & _LOW
    for i in range(run.shape[0]):
        part = (np.uint64(run[i]) << shift) & _LOW
        a0[i] += part * key_0
        a1[i] += part * key_1


@compiled
def add_doubles(run: Any, low: Any, high: Any, a0: Any, a1: Any) -> Any:
    """`add_column` for elements of two words."""
    for i in range(run.shape[0]):
        part, other = run[i] & _LOW, run[i] >> _32
        a0[i] += part * (low[0] & _LOW) + other * (high[0] & _LOW)
        a1[i] += part * (low[1] & _LOW) + other * (high[1] & _LOW)


@compiled
def take_columns(block: Any, reading: Any, found: Any) -> Any:
    """Take in `Rows` whose elements of one column are neighbours in memory."""
    width = reading.held
    sums = numba.carray(_sums(), (2, RUN), np.uint64)
    seen = numba.carray(_histogram(), 256, np.int64)
    for start in range(0, block.rows, RUN):
        n = min(RUN, block.rows - start)
        a0, a1 = sums[0, :n], sums[1, :n]
        a0[:], a1[:] = 0, 0
        for c in range(block.cols):
            address = block.address + start * width + c * block.col_bytes
            first_byte = (block.col_offset + c * block.col_stride) * width
            at, keys, shift = pointer(address), word_keys(first_byte // 4), np.uint64(8 * (first_byte % 4))
            if width == 1:
                add_column(numba.carray(at, n, np.uint8), shift, keys, a0, a1)
            elif width == 2:
                add_column(numba.carray(at, n, np.uint16), shift, keys, a0, a1)
            elif width == 4:
                add_column(numba.carray(at, n, np.uint32), shift, keys, a0, a1)
            else:
                add_doubles(numba.carray(at, n, np.uint64), keys, word_keys(first_byte // 4 + 1), a0, a1)
            if reading.statistics:
                observe_run(address, n * width, reading, seen, found)
        for r in range(n):
            add_row(block.row_offset + (start + r) * block.row_stride, a0[r], a1[r], found.lanes)
