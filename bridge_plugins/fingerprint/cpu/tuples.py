"""What the kernels hand each other."""

from __future__ import annotations

from typing import Any, NamedTuple


class Rows(NamedTuple):
    """Rows of a block: where they lie in memory, bytes; how many; and their place in the whole tensor."""

    address: Any
    row_bytes: Any
    col_bytes: Any
    rows: Any
    cols: Any
    row_offset: Any
    row_stride: Any
    col_offset: Any
    col_stride: Any


class Reading(NamedTuple):
    """How elements are read: widths in memory and as taken, bytes (4 and 2 take the upper half of each float32).

    code, lookup: see `codes.Code`. statistics: whether to compute them.
    """

    held: Any
    taken: Any
    code: Any
    lookup: Any
    statistics: Any


class Found(NamedTuple):
    """Where numbers are added: lanes uint64 × 2; floats: absmax, sum of squares; counts: see `statistics`."""

    lanes: Any
    floats: Any
    counts: Any
