"""Statistics of elements on the CPU, one by one: whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from bridge_plugins.fingerprint.cpu.codes import (
    FLOAT32,
    FLOAT64,
    LOOKUP,
    SIGNED32,
    SIGNED64,
    UNSIGNED64,
)
from bridge_plugins.fingerprint.cpu.jit import as_float32, as_float64, compiled

ABSMAX, SQUARES = range(2)
ZEROS, NANS, INFS, LOSSY = range(4)

_U32 = np.uint32


@compiled
def value(bits: Any, code: Any, lookup: Any) -> Any:
    """The number that an element's bits (uint64) stand for, as float64."""
    if code == LOOKUP or code > UNSIGNED64:
        return lookup[bits]
    if code == FLOAT32:
        return np.float64(as_float32(_U32(bits)))
    if code == FLOAT64:
        return as_float64(bits)
    if code == SIGNED32:
        return np.float64(np.int32(_U32(bits)))
    if code == SIGNED64:
        return np.float64(np.int64(bits))
    return np.float64(bits)


@compiled
def observe(x: Any, times: Any, floats: Any, counts: Any) -> Any:
    """Take in the number x, seen `times` times."""
    if x == 0:
        counts[ZEROS] += times
    elif np.isnan(x):
        counts[NANS] += times
    elif np.isinf(x):
        counts[INFS] += times
    else:
        floats[ABSMAX] = max(floats[ABSMAX], abs(x))
        floats[SQUARES] += times * (x * x)


@compiled
def observe_histogram(row: Any, lookup: Any, seen: Any, floats: Any, counts: Any) -> Any:
    """8-bit elements: 256 different numbers at most. seen: int64 × 256, whatever is in it."""
    seen[:] = 0
    for i in range(row.shape[0]):
        seen[row[i]] += 1
    for bits in range(256):
        if seen[bits]:
            observe(lookup[bits], seen[bits], floats, counts)
