"""Blocks of any strides, element by element: rows that aren't runs of words, and narrowing from float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridge_plugins.fingerprint.cpu.jit import compiled, load_1, load_2, load_4, load_8
from bridge_plugins.fingerprint.cpu.lanes import row_keys, word_keys
from bridge_plugins.fingerprint.cpu.statistics import LOSSY, observe, value

_BLOCK = 1024  # columns at a time: their keys stay in the first-level cache
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@compiled
def load(address: Any, width: Any) -> Any:
    """The bits of the element of `width` bytes at an address, as uint64."""
    if width == 1:
        return load_1(address)
    if width == 2:
        return load_2(address)
    if width == 4:
        return load_4(address)
    return load_8(address)


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
def take_elements(
    block: Any,
    held: Any,
    taken: Any,
    code: Any,
    lookup: Any,
    statistics: Any,
    lanes: Any,
    floats: Any,
    counts: Any,
) -> Any:
    """Add a block to lanes, floats and counts.

    block: (address, bytes from row to row, and from column to column, rows, columns, row offset, row stride,
    column offset, column stride). held, taken: widths in bytes; 4 and 2 take the upper half of each float32.
    """
    address, row_bytes, col_bytes, rows, cols, row_offset, row_stride, col_offset, col_stride = block
    narrows = held != taken
    keys = np.empty((4, min(cols, _BLOCK)), np.uint64)
    for start in range(0, cols, _BLOCK):
        n = min(_BLOCK, cols - start)
        fill_element_keys(col_offset + start * col_stride, col_stride, taken, keys[:, :n])
        for r in range(rows):
            at = address + r * row_bytes + start * col_bytes
            a0 = a1 = np.uint64(0)
            for j in range(n):
                bits = load(at + j * col_bytes, held)
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
                if statistics:
                    observe(value(bits, code, lookup), 1, floats, counts)
            key_0, key_1 = row_keys(row_offset + r * row_stride)
            lanes[0] += a0 * key_0
            lanes[1] += a1 * key_1
