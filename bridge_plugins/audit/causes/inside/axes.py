"""Rows are dealt out in another order of the same groups: heads by group, gate and up by shard, a rotary interleave."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View

_SMALLEST = 8  #: rows of a block; what is smaller isn't a head
_HEADS = (32, 64, 80, 96, 128, 192, 256)


def explain(case: Case) -> str | None:
    """``rows of q_proj are ordered as 4 x 8 blocks of 128 where they should be 8 x 4``."""
    if len(case.right.shape) < 2 or not case.same_kind or not case.may_be_rearranged:
        return None
    for what, outer, first, second in _candidates(case):
        if case.has_rows_rearranged(_swap(outer, second, first), _swap(outer, first, second)):
            return what
    return None


def _candidates(case: Case) -> Iterator[tuple[str, int, int, int]]:
    """What to say; and: rows seen as outer x first x second blocks lie in the wrong tensor as outer x second x first."""
    *stack, rows, _ = case.right.shape
    outer = 1
    for size in stack:
        outer *= size
    for first in range(2, rows // (2 * _SMALLEST) + 1):
        for second in range(2, rows // (first * _SMALLEST) + 1) if rows % first == 0 else ():
            if rows % (first * second) == 0:
                block = rows // (first * second)
                order = f"{second} x {first} blocks of {block} where they should be {first} x {second}"
                yield f"rows of {case.word} are ordered as {order}", outer, first, second
    for head in _HEADS:
        if rows % head == 0:
            heads = outer * rows // head
            halves = f"the halves of each head of {head} rows of {case.word}"
            yield f"{halves} are interleaved", heads, 2, head // 2
            yield f"{halves} should be interleaved and are not", heads, head // 2, 2


def _swap(outer: int, first: int, second: int) -> View:
    def swapped(tensor: Tensor) -> Tensor:
        blocks = tensor.reshape(outer, first, second, -1)
        return blocks.transpose(1, 2).reshape(tensor.shape)

    return swapped
