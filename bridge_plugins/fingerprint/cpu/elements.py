"""Blocks of any strides, element by element: neither rows nor columns are runs; and narrowing from float32."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from bridge_plugins.fingerprint.cpu.jit import compiled, load, room
from bridge_plugins.fingerprint.cpu.lanes import add_row, word_keys
from bridge_plugins.fingerprint.cpu.statistics import LOSSY, observe, value

_BLOCK = 1024  # columns at a time: their keys stay in the first-level cache
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_keys = room(4 * _BLOCK * 8)


@compiled
def fill_element_keys(first: Any, step: Any, width: Any, keys: Any) -> Any:
    """C(c) of elements of `width` bytes at columns first, first + step, …; low and high word's for 8 bytes.

    keys: uint64, 4 × n: lane 0, lane 1, and for the high words lane 0, lane 1.
    """
    for j in range(keys.shape[1]):
        column = first + j * step
        if width == 8:
            keys[0, j], keys[1, j] = word_keys(2 * column)
            keys[2, j], keys[3, j] = word_keys(2 * column + 1)
        else:
            shift = np.uint64(8 * (column * width % 4))
            key_0, key_1 = word_keys(column * width // 4)
            keys[0, j], keys[1, j] = key_0 << shift, key_1 << shift


@compiled
def take_elements(block: Any, reading: Any, found: Any) -> Any:
    """Take in `Rows`."""
    cols, held, taken, counts = block.cols, reading.held, reading.taken, found.counts
    narrows = held != taken
    keys = numba.carray(_keys(), (4, _BLOCK), np.uint64)
    for start in range(0, cols, _BLOCK):
        n = min(_BLOCK, cols - start)
        fill_element_keys(block.col_offset + start * block.col_stride, block.col_stride, taken, keys[:, :n])
        for r in range(block.rows):
            at = block.address + r * block.row_bytes + start * block.col_bytes
            a0 = a1 = np.uint64(0)
            for j in range(n):
                bits = load(at + j * block.col_bytes, held)
                if narrows:
                    counts[LOSSY] += np.int64((bits & np.uint64(0xFFFF)) != 0)
                    bits >>= np.uint64(16)
                if taken == 8:
                    low, high = bits & _LOW, bits >> _32
                    a0 += low * keys[0, j] + high * keys[2, j]
                    a1 += low * keys[1, j] + high * keys[3, j]
                else:
                    a0 += bits * keys[0, j]
                    a1 += bits * keys[1, j]
                if reading.statistics:
                    observe(value(bits, reading.code, reading.lookup), 1, found.floats, counts)
            add_row(block.row_offset + r * block.row_stride, a0, a1, found.lanes)
