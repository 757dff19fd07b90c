"""A tensor of which four bytes alone differ, as a memory that failed leaves it: which ones, from fingerprints alone.

One changed word changes each lane by its row's key times its own key times one number. The keys are odd, so that the
number can be had for each place; only at the right one both lanes give the same, and one that fits into a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from math import prod

import numpy as np

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.key_arrays import Keys, first_keys
from bridge_plugins.audit.causes.wording import numbered, where
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint.formats import named
from bridge_plugins.fingerprint.keys import COL, LANES, MASK64, ROW

_FEW = 8  #: tensors are looked into; where more differ no memory failed
_LARGEST = 1 << 24  #: words: a second or two
_ROWS = 1 << 20  #: words at a time


def one_word(wrong: Mapping[str, Record], reference: Mapping[str, Record]) -> Iterator[Cause]:
    """One cause for each such tensor."""
    for name, record in list(wrong.items()) if len(wrong) <= _FEW else ():
        right = reference.get(name)
        if right and (record.dtype, record.shape) == (right.dtype, right.shape) and right.shape:
            apart = [(a - b) & MASK64 for a, b in zip(record.lanes, right.lanes, strict=True)]
            if place := _place(apart, right):
                said = f"{name} differs in 4 bytes alone ({place})"
                yield Cause(where([name]), said, (name,))


def _place(apart: list[int], record: Record) -> str:
    """Where the word lies that makes this difference of lanes; empty if there is none."""
    bits = named(record.dtype).bits
    rows, cols = prod(record.shape[:-1]), record.shape[-1]
    words = -(-cols * bits // 32)
    if bits > 32 or not 0 < rows * words <= _LARGEST:
        return ""
    step = max(_ROWS // words, 1)
    for start in range(0, rows, step):
        first, second = (
            np.uint64(apart[lane])
            * _inverse_keys(lane, ROW, rows)[start : start + step, None]
            * _inverse_keys(lane, COL, words)
            for lane in range(LANES)
        )
        small = (first + np.uint64(1 << 32)) < np.uint64(1 << 33)  # from -2**32 to 2**32
        if len(found := np.argwhere(small & (first == second))):
            row, word = (int(index) for index in found[0])
            each = 32 // bits
            at = numbered("column", range(word * each, min(word * each + each, cols)))
            return at if len(record.shape) == 1 else f"row {start + row}, {at}"
    return ""


@lru_cache(64)
def _inverse_keys(lane: int, axis: int, count: int) -> Keys:
    """What undoes a multiplication by each of the first keys, mod 2**64."""
    key = first_keys(lane, axis, count)
    inverse = key.copy()
    for _ in range(5):  # Newton's method doubles the bits that are right: 3 of them to begin with
        inverse *= np.uint64(2) - key * inverse
    return inverse
