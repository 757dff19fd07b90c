"""The kernel as numba compiles it: one function of numbers and addresses. Whoever wants to run it: `machine_code`."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import carray, types

from bridge_plugins.fingerprint.cpu.columns import take_columns
from bridge_plugins.fingerprint.cpu.elements import take_elements
from bridge_plugins.fingerprint.cpu.jit import OPTIONS, pointer
from bridge_plugins.fingerprint.cpu.machine_code import ARGUMENTS
from bridge_plugins.fingerprint.cpu.tuples import Found, Reading, Rows
from bridge_plugins.fingerprint.cpu.words import take_words
from bridge_plugins.fingerprint.geometry import FIELDS

_MOST = 1 << 16  # entries of a table by which bits are looked up


def measure_units(plan: Any, table: Any, first: Any, last: Any, out: Any) -> Any:
    """Units first … last - 1, each into its own row of `out`: 8 numbers, lanes, absmax, sum of squares, counts.

    All int64: plan, table (see `geometry`) and out are addresses of arrays that lie in memory as C has them. A plan has the
    addresses of words (of each block, whole ones of a row), units (see `units_of`) and lookup, and what `Reading` has.
    """
    words, units, lookup, held, taken, code, statistics = carray(pointer(plan), 7, np.int64)
    blocks = carray(pointer(table), (last, FIELDS), np.int64)  # no more than there are units
    whole_words = carray(pointer(words), last, np.int64)
    runs = carray(pointer(units), (last, 3), np.int64)
    reading = Reading(held, taken, code, carray(pointer(lookup), _MOST, np.float64), statistics != 0)
    for unit in range(first, last):
        index, start, end = runs[unit]
        address, row_bytes, col_bytes, _, cols, row, row_stride, col, col_stride = blocks[index]
        address += start * row_bytes
        row += start * row_stride
        at = out + 64 * unit
        lanes, floats = carray(pointer(at), 2, np.uint64), carray(pointer(at + 16), 2, np.float64)
        found = Found(lanes, floats, carray(pointer(at + 32), 4, np.int64))
        done = whole_words[index] * 4 // held
        if done:
            whole = Rows(address, row_bytes, col_bytes, end - start, done, row, row_stride, col, col_stride)
            take_words(whole, whole_words[index], reading, found)
        if done < cols:
            address += done * col_bytes
            col += done * col_stride
            rest = Rows(
                address, row_bytes, col_bytes, end - start, cols - done, row, row_stride, col, col_stride
            )
            if row_bytes == held == taken and end - start > 1:
                take_columns(rest, reading, found)
            else:
                take_elements(rest, reading, found)


def assembly(name: str) -> str:
    """The compiled kernel in LLVM's language, called `name`.

    In C: ``int32_t name(void **, void **, int64_t …)``, the first two for what numba returns, which is nothing.
    """
    kernel = numba.njit(types.void(*[types.int64] * ARGUMENTS), **OPTIONS)(measure_units)
    (signature,) = kernel.signatures
    mangled = kernel.overloads[signature].fndesc.mangled_name
    return str(kernel.inspect_llvm(signature)).replace(mangled, name)
