"""Both lanes of blocks whose rows lie in memory as runs of 32-bit words: the fast loop."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridge_plugins.fingerprint.cpu.jit import compiled
from bridge_plugins.fingerprint.keys import COL, GAMMA, MIX_1, MIX_2, ROW, SEEDS

_GAMMA, _MIX_1, _MIX_2 = np.uint64(GAMMA), np.uint64(MIX_1), np.uint64(MIX_2)
_ROW_0, _ROW_1 = np.uint64(SEEDS[0][ROW]), np.uint64(SEEDS[1][ROW])
_COL_0, _COL_1 = np.uint64(SEEDS[0][COL]), np.uint64(SEEDS[1][COL])
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@compiled
def key(seed: Any, index: Any) -> Any:
    """`keys.key` for a stream's seed."""
    z = seed + np.uint64(index) + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return (z >> _32) | np.uint64(1)


@compiled
def row_keys(row: Any) -> Any:
    """The keys of a row in both lanes."""
    return key(_ROW_0, row), key(_ROW_1, row)


@compiled
def add_row(row: Any, a0: Any, a1: Any, lanes: Any) -> Any:
    """Weight a row's sums with the row's keys and add them."""
    key_0, key_1 = row_keys(row)
    lanes[0] += a0 * key_0
    lanes[1] += a1 * key_1


@compiled
def fill_word_keys(first: Any, keys: Any) -> Any:
    """Keys of the words from `first` on into `keys`, uint32, 2 × n."""
    for i in range(keys.shape[1]):
        keys[0, i] = key(_COL_0, first + i)
        keys[1, i] = key(_COL_1, first + i)


@compiled
def word_keys(word: Any) -> Any:
    """The keys of a word in both lanes."""
    return key(_COL_0, word), key(_COL_1, word)


@compiled
def row_sums(row: Any, keys_0: Any, keys_1: Any) -> Any:
    """Σ key · word along a row in both lanes. Row and keys are pairs of words: uint64, low word first."""
    a0 = a1 = np.uint64(0)
    for i in range(row.shape[0]):
        low, high = row[i] & _LOW, row[i] >> _32
        a0 += low * (keys_0[i] & _LOW) + high * (keys_0[i] >> _32)
        a1 += low * (keys_1[i] & _LOW) + high * (keys_1[i] >> _32)
    return a0, a1


@compiled
def four_row_sums(a: Any, b: Any, c: Any, d: Any, keys_0: Any, keys_1: Any) -> Any:
    """`row_sums` of four rows at once.

    Four rows far apart are four streams for the memory: one alone leaves a quarter of its rate unused, since
    the prefetcher stops at each page. The keys are loaded once for all four.
    """
    a0 = a1 = b0 = b1 = c0 = c1 = d0 = d1 = np.uint64(0)
    for i in range(a.shape[0]):
        low_0, high_0 = keys_0[i] & _LOW, keys_0[i] >> _32
        low_1, high_1 = keys_1[i] & _LOW, keys_1[i] >> _32
        low, high = a[i] & _LOW, a[i] >> _32
        a0 += low * low_0 + high * high_0
        a1 += low * low_1 + high * high_1
        low, high = b[i] & _LOW, b[i] >> _32
        b0 += low * low_0 + high * high_0
        b1 += low * low_1 + high * high_1
        low, high = c[i] & _LOW, c[i] >> _32
        c0 += low * low_0 + high * high_0
        c1 += low * low_1 + high * high_1
        low, high = d[i] & _LOW, d[i] >> _32
        d0 += low * low_0 + high * high_0
        d1 += low * low_1 + high * high_1
    return a0, a1, b0, b1, c0, c1, d0, d1
