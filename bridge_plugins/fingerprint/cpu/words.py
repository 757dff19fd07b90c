"""Blocks whose rows are runs of 32-bit words: lanes and statistics while the words are in the cache."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from bridge_plugins.fingerprint.cpu.jit import compiled, load, pointer, room
from bridge_plugins.fingerprint.cpu.lanes import add_row, fill_word_keys, four_row_sums, row_sums
from bridge_plugins.fingerprint.cpu.runs import observe_run

_BLOCK = 1024  # words at a time: four rows of them and their keys fit the first-level cache
_SHORT = 256  # rows of fewer words are looked at many at once: statistics don't ask where an element lies

_keys = room(2 * _BLOCK * 4)
_histogram = room(256 * 8)


@compiled
def pairs(address: Any, n: Any) -> Any:
    """n words at an address as n / 2 pairs, uint64; a last odd word is left out."""
    return numba.carray(pointer(address), n // 2, np.uint64)


@compiled
def take_words(block: Any, words: Any, reading: Any, found: Any) -> Any:
    """Take in the first `words` words of each of `Rows`."""
    row_bytes, rows, lanes = block.row_bytes, block.rows, found.lanes
    row_offset, row_stride = block.row_offset, block.row_stride
    first_word = block.col_offset * reading.held // 4
    buffer = numba.carray(_keys(), (2, _BLOCK), np.uint32)
    seen = numba.carray(_histogram(), 256, np.int64)
    apart = rows // 4
    at_once = reading.statistics and words < _SHORT and row_bytes == 4 * words
    row_by_row = reading.statistics and not at_once
    for start in range(0, words, _BLOCK):
        n = min(_BLOCK, words - start)
        fill_word_keys(first_word + start, buffer[:, :n])
        keys_0, keys_1 = buffer[0].view(np.uint64)[: n // 2], buffer[1].view(np.uint64)[: n // 2]
        corner = block.address + 4 * start
        for r in range(apart):
            at = corner + r * row_bytes
            far = apart * row_bytes
            a0, a1, b0, b1, c0, c1, d0, d1 = four_row_sums(
                pairs(at, n),
                pairs(at + far, n),
                pairs(at + 2 * far, n),
                pairs(at + 3 * far, n),
                keys_0,
                keys_1,
            )
            add_row(row_offset + r * row_stride, a0, a1, lanes)
            add_row(row_offset + (r + apart) * row_stride, b0, b1, lanes)
            add_row(row_offset + (r + 2 * apart) * row_stride, c0, c1, lanes)
            add_row(row_offset + (r + 3 * apart) * row_stride, d0, d1, lanes)
            if row_by_row:
                for i in range(4):
                    observe_run(at + i * far, 4 * n, reading, seen, found)
        for r in range(4 * apart, rows):
            at = corner + r * row_bytes
            a0, a1 = row_sums(pairs(at, n), keys_0, keys_1)
            add_row(row_offset + r * row_stride, a0, a1, lanes)
            if row_by_row:
                observe_run(at, 4 * n, reading, seen, found)
        if n % 2:  # the last word of a row, which has no pair
            for r in range(rows):
                word = load(corner + r * row_bytes + 4 * (n - 1), 4)
                add_row(row_offset + r * row_stride, word * buffer[0, n - 1], word * buffer[1, n - 1], lanes)
    if at_once:
        for start in range(0, rows * words, _BLOCK):
            n = min(_BLOCK, rows * words - start)
            observe_run(block.address + 4 * start, 4 * n, reading, seen, found)
