"""Tensors that are the reference's times one power of two: a factor that was applied once too often, or not.

It adds one number to the bits of every element, and so to the fingerprint what dtype and shape alone tell: no tensor is
needed. Zeros stay what they are, so that nothing is said of a tensor that has some.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod

import numpy as np

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.key_arrays import first_keys
from bridge_plugins.audit.causes.wording import kinds, where
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint.formats import Kind, named
from bridge_plugins.fingerprint.keys import COL, LANES, MASK64, ROW

_MOST = 16  #: powers of two up to here, and down to its inverse


def powers(wrong: Mapping[str, Record], reference: Mapping[str, Record]) -> Iterator[Cause]:
    """One cause for each power of two."""
    found: dict[int, list[str]] = defaultdict(list)
    for name, record in wrong.items():
        right = reference.get(name)
        if right and (record.dtype, record.shape) == (right.dtype, right.shape):
            apart = tuple((a - b) & MASK64 for a, b in zip(record.lanes, right.lanes, strict=True))
            if exponent := _exponents(right.dtype, right.shape).get(apart):
                found[exponent].append(name)
    for exponent, names in found.items():
        yield Cause(where(names), f"{kinds(names)} the reference times {2.0**exponent:g}", tuple(names))


@lru_cache(64)
def _exponents(dtype: str, shape: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """By what each power adds to the fingerprint of a tensor without zeros, the exponent."""
    of = named(dtype)
    if of.kind not in (Kind.IEEE, Kind.FN) or of.bits > 32 or not shape:
        return {}
    rows, cols = prod(shape[:-1]), shape[-1]
    ones = [_rows(lane, rows) * _cols(lane, cols, of.bits) for lane in range(LANES)]
    exponents = (sign * power for power in range(1, _MOST + 1) for sign in (1, -1))
    return {tuple((n * one << of.mantissa) & MASK64 for one in ones): n for n in exponents}


def _rows(lane: int, count: int) -> int:
    return int(first_keys(lane, ROW, count).sum())


def _cols(lane: int, count: int, bits: int) -> int:
    at = np.arange(count, dtype=np.uint64) * np.uint64(bits)
    keys = first_keys(lane, COL, -(-count * bits // 32))[at // np.uint64(32)]
    return int((keys << at % np.uint64(32)).sum())
