"""Statistics of elements on the CPU: vector loops for weights as they mostly are, an exact one besides."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bridge_plugins.fingerprint.cpu.jit import as_float32, as_float64, compiled

# How bits read as a number (see `codes.py`); LOOKUP and what comes after UNSIGNED64 by a table of 2^bits float64.
LOOKUP, FLOAT32, FLOAT64, SIGNED32, UNSIGNED32, SIGNED64, UNSIGNED64, BFLOAT16, FLOAT16 = range(9)

ABSMAX, SQUARES = range(2)
ZEROS, NANS, INFS, LOSSY = range(4)

# Squares of float32 between these neither overflow nor vanish in a float32 sum over a block of a row.
SMALLEST: Final = np.float32(2.0**-40)
LARGEST: Final = np.float32(2.0**50)

_U16, _U32 = np.uint16, np.uint32


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
def observe_bytes(row: Any, lookup: Any, seen: Any, floats: Any, counts: Any) -> Any:
    """8-bit elements, through a histogram: 256 different numbers at most."""
    seen[:] = 0
    for i in range(row.shape[0]):
        seen[row[i]] += 1
    for bits in range(256):
        if seen[bits]:
            observe(lookup[bits], seen[bits], floats, counts)


def _observer_of_halves(mantissa: int, bias: int) -> Any:
    """The vector loop for a 16-bit float format."""
    # A magnitude's bits, shifted so that the exponent lies where float32 has it, are the number divided by the
    # scale, subnormal ones included; Inf and NaN come out at or above the limit. Shifts must be constants: numba
    # shifts by variables in 64 bits, at a quarter of the speed.
    shift = _U32(23 - mantissa)
    scale = np.float32(2.0 ** (127 - bias))
    limit = np.float32(min(2.0 ** (bias + 1), float(LARGEST)))

    @compiled
    def observe_halves(words: Any, floats: Any, counts: Any) -> Any:
        """Two elements a word, 65535 words at most. False, and nothing taken in, if it takes the exact loop."""
        zeros = most = _U32(0)
        squares = np.float32(0)
        for i in range(words.shape[0]):
            magnitudes = _U32(words[i] & _U32(0x7FFF7FFF))
            # Bit 15 of a half is set in 0x8000 - magnitude for zero alone; two 16-bit counters in one number.
            zeros = _U32(zeros + _U32(_U32(_U32(0x80008000) - magnitudes) >> _U32(15) & _U32(0x00010001)))
            low = _U32(_U32(magnitudes & _U32(0xFFFF)) << shift)
            high = _U32(_U32(magnitudes >> _U32(16)) << shift)
            most = max(most, max(low, high))
            a, b = as_float32(low) * scale, as_float32(high) * scale
            squares += a * a + b * b
        largest = as_float32(most) * scale
        if not (largest == 0 or SMALLEST < largest < limit):
            return False
        floats[ABSMAX] = max(floats[ABSMAX], np.float64(largest))
        floats[SQUARES] += squares
        counts[ZEROS] += np.int64(zeros & _U32(0xFFFF)) + np.int64(zeros >> _U32(16))
        return True

    return observe_halves


observe_bfloat16 = _observer_of_halves(mantissa=7, bias=127)
observe_float16 = _observer_of_halves(mantissa=10, bias=15)


@compiled
def observe_floats(words: Any, floats: Any, counts: Any) -> Any:
    """float32 elements, as words. False, and nothing taken in, if the exact loop is needed."""
    zeros = _U32(0)
    squares = np.float32(0)
    most = _U32(0)
    for i in range(words.shape[0]):
        magnitude = _U32(words[i] & _U32(0x7FFFFFFF))
        zeros = _U32(zeros + _U32(magnitude == 0))
        most = max(most, magnitude)
        x = as_float32(magnitude)
        squares += x * x
    largest = as_float32(most)
    if not (largest == 0 or SMALLEST < largest < LARGEST):
        return False
    floats[ABSMAX] = max(floats[ABSMAX], np.float64(largest))
    floats[SQUARES] += squares
    counts[ZEROS] += np.int64(zeros)
    return True
