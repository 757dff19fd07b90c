"""Statistics of runs of elements on the CPU, in loops that LLVM makes vectors of; at most 65535 elements each.

Of floats as weights mostly are: a loop says False, and takes nothing in, where the exact one is needed. numba must
be told each number's width, or it computes in 64 bits, at a quarter of the speed; and counters are as wide as
elements, or a bit wider.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from bridge_plugins.fingerprint.cpu.jit import as_float32, as_float64, compiled
from bridge_plugins.fingerprint.cpu.statistics import ABSMAX, SQUARES, ZEROS

# Squares of float32 between these neither overflow nor vanish in a float32 sum over a block of a row.
SMALLEST: Final = np.float32(2.0**-40)
LARGEST: Final = np.float32(2.0**50)

_U8, _U16, _U32, _I64 = np.uint8, np.uint16, np.uint32, np.int64
_LOW_BYTE = _U32(0x7F)
_INFINITE = _I64(0x7FF << 52)  # the bits of a float64


@compiled
def _take(absmax: Any, squares: Any, zeros: Any, floats: Any, counts: Any) -> Any:
    floats[ABSMAX] = max(floats[ABSMAX], np.float64(absmax))
    floats[SQUARES] += np.float64(squares)
    counts[ZEROS] += np.int64(zeros)


@compiled
def _sound(largest: Any) -> Any:
    return largest == 0 or SMALLEST < largest < LARGEST


# A magnitude's bits, shifted so that the exponent lies where float32 has it, are the number divided by a scale,
# subnormal ones included. `special`: the first magnitude that is NaN or Inf.
def _observer_of_halves(mantissa: int, bias: int, special: int) -> Any:
    """For a 16-bit float format."""
    shift, scale, first_special = _U32(23 - mantissa), np.float32(2.0 ** (127 - bias)), _U16(special)

    @compiled
    def observe_halves(elements: Any, words: Any, floats: Any, counts: Any) -> Any:
        zeros = most = _U16(0)
        for i in range(elements.shape[0]):
            magnitude = _U16(elements[i] & _U16(0x7FFF))
            zeros = _U16(zeros + _U16(magnitude == 0))
            most = max(most, magnitude)
        largest = as_float32(_U32(_U32(most) << shift)) * scale
        if most >= first_special or not _sound(largest):
            return False
        squares = np.float32(0)
        for i in range(words.shape[0]):
            magnitudes = _U32(words[i] & _U32(0x7FFF7FFF))
            a = as_float32(_U32(_U32(magnitudes & _U32(0xFFFF)) << shift)) * scale
            b = as_float32(_U32(_U32(magnitudes >> _U32(16)) << shift)) * scale
            squares += a * a + b * b
        _take(largest, squares, zeros, floats, counts)
        return True

    return observe_halves


def _observer_of_quarters(mantissa: int, bias: int, special: int) -> Any:
    """For an 8-bit float format, whose squares all fit."""
    shift, scale, first_special = _U32(23 - mantissa), np.float32(2.0 ** (127 - bias)), _U8(special)

    @compiled
    def observe_quarters(elements: Any, words: Any, floats: Any, counts: Any) -> Any:
        zeros, most = _U16(0), _U8(0)
        for i in range(elements.shape[0]):
            most = max(most, _U8(elements[i] & _U8(0x7F)))
        if most >= first_special:
            return False
        for i in range(elements.shape[0]):
            zeros = _U16(zeros + _U16(_U8(elements[i] & _U8(0x7F)) == 0))
        squares = np.float32(0)
        for i in range(words.shape[0]):
            w = words[i]
            a = as_float32(_U32(_U32(w & _LOW_BYTE) << shift)) * scale
            b = as_float32(_U32(_U32(_U32(w >> _U32(8)) & _LOW_BYTE) << shift)) * scale
            c = as_float32(_U32(_U32(_U32(w >> _U32(16)) & _LOW_BYTE) << shift)) * scale
            d = as_float32(_U32(_U32(_U32(w >> _U32(24)) & _LOW_BYTE) << shift)) * scale
            squares += a * a + b * b + (c * c + d * d)
        _take(as_float32(_U32(_U32(most) << shift)) * scale, squares, zeros, floats, counts)
        return True

    return observe_quarters


observe_bfloat16 = _observer_of_halves(mantissa=7, bias=127, special=0x7F80)
observe_float16 = _observer_of_halves(mantissa=10, bias=15, special=0x7C00)
observe_e4m3 = _observer_of_quarters(mantissa=3, bias=7, special=0x7F)
observe_e5m2 = _observer_of_quarters(mantissa=2, bias=15, special=0x7C)


@compiled
def observe_floats(words: Any, floats: Any, counts: Any) -> Any:
    """float32 elements, as words."""
    zeros = most = _U32(0)
    squares = np.float32(0)
    for i in range(words.shape[0]):
        magnitude = _U32(words[i] & _U32(0x7FFFFFFF))
        zeros = _U32(zeros + _U32(magnitude == 0))
        most = max(most, magnitude)
        x = as_float32(magnitude)
        squares += x * x
    if not _sound(as_float32(most)):
        return False
    _take(as_float32(most), squares, zeros, floats, counts)
    return True


@compiled
def observe_doubles(bits: Any, elements: Any, floats: Any, counts: Any) -> Any:
    """float64 elements, as int64 and as they are."""
    zeros = most = _I64(0)
    squares = 0.0
    for i in range(bits.shape[0]):
        magnitude = bits[i] & ~(_I64(1) << _I64(63))
        zeros += _I64(magnitude == 0)
        most = max(most, magnitude)
        squares += elements[i] * elements[i]
    if most >= _INFINITE:
        return False
    _take(as_float64(most), squares, zeros, floats, counts)
    return True


def _observer_of_integers(wide: Any, counter: Any) -> Any:
    """For integers whose squares, 65535 of them, are summed as `wide`; NumPy types."""

    @compiled
    def observe_integers(elements: Any, floats: Any, counts: Any) -> Any:
        least = most = elements[0]
        for i in range(elements.shape[0]):
            least, most = min(least, elements[i]), max(most, elements[i])
        zeros = counter(0)
        for i in range(elements.shape[0]):
            zeros = counter(zeros + counter(elements[i] == 0))
        squares = wide(0)
        for i in range(elements.shape[0]):
            x = wide(elements[i])
            squares = wide(squares + wide(x * x))
        _take(max(abs(np.float64(least)), abs(np.float64(most))), squares, zeros, floats, counts)

    return observe_integers


observe_bytes = _observer_of_integers(np.uint32, np.uint16)
observe_integers = _observer_of_integers(np.float64, np.uint32)
