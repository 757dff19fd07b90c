"""Statistics of elements that lie side by side in memory: which loop takes them."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from bridge_plugins.fingerprint.cpu import codes, vectors
from bridge_plugins.fingerprint.cpu import statistics as s
from bridge_plugins.fingerprint.cpu.jit import compiled, load, pointer


@compiled
def observe_run(address: Any, size: Any, reading: Any, seen: Any, found: Any) -> Any:
    """Statistics of the elements in `size` bytes, 65535 elements at most. seen: room, int64 × 256."""
    width, code, lookup = reading.held, reading.code, reading.lookup
    done = size - size % 4
    if done == 0 or not _quickly(address, done, code, found.floats, found.counts):
        done = 0
        if width == 1:
            row = numba.carray(pointer(address), size, np.uint8)
            s.observe_histogram(row, lookup, seen, found.floats, found.counts)
            return
    for at in range(address + done, address + size, width):
        s.observe(s.value(load(at, width), code, lookup), 1, found.floats, found.counts)


@compiled
def _quickly(address: Any, size: Any, code: Any, floats: Any, counts: Any) -> Any:
    """Whether a vector loop has taken the elements."""
    at = pointer(address)
    words = numba.carray(at, size // 4, np.uint32)
    if code == codes.BFLOAT16:
        return vectors.observe_bfloat16(numba.carray(at, size // 2, np.uint16), words, floats, counts)
    if code == codes.FLOAT16:
        return vectors.observe_float16(numba.carray(at, size // 2, np.uint16), words, floats, counts)
    if code == codes.FLOAT32:
        return vectors.observe_floats(words, floats, counts)
    if code == codes.E4M3:
        return vectors.observe_e4m3(numba.carray(at, size, np.uint8), words, floats, counts)
    if code == codes.E5M2:
        return vectors.observe_e5m2(numba.carray(at, size, np.uint8), words, floats, counts)
    if code == codes.FLOAT64:
        bits, elements = numba.carray(at, size // 8, np.int64), numba.carray(at, size // 8, np.float64)
        return vectors.observe_doubles(bits, elements, floats, counts)
    if code == codes.UNSIGNED8:
        vectors.observe_bytes(numba.carray(at, size, np.uint8), floats, counts)
    elif code == codes.SIGNED8:
        vectors.observe_bytes(numba.carray(at, size, np.int8), floats, counts)
    elif code == codes.SIGNED32:
        vectors.observe_integers(numba.carray(at, size // 4, np.int32), floats, counts)
    elif code == codes.SIGNED64:
        vectors.observe_integers(numba.carray(at, size // 8, np.int64), floats, counts)
    else:
        return False
    return True
