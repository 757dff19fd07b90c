"""Equal shards were glued in another order, along rows or along columns."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case
from bridge_plugins.fingerprint import Box, Part, fingerprint_many
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.value import Lanes

SHARDS = (2, 3, 4, 6, 8)


def explain(case: Case) -> str | None:
    """``TP shards of o_proj are in the order 1,0 (columns)``.

    Every shard of the tensor at hand is fingerprinted at every shard's place: an order is right if its places add
    up to the other side's fingerprint. That costs as many passes as there are shards.
    """
    tensor = case.wrong_tensor if case.wrong_tensor is not None else case.right_tensor
    if tensor is None or not case.same_kind or not case.may_be_rearranged:
        return None
    target = case.right.lanes if case.wrong_tensor is not None else case.wrong.lanes
    for shards, axis in itertools.product(SHARDS, (0, 1)):
        size = rows_and_cols(tensor.shape)[axis]
        if size % shards or (axis and size // shards * tensor.element_size() % 4):
            continue
        order = _order(tensor, shards, axis, target)
        if order is not None:
            if case.wrong_tensor is None:  # where the right one's shards went, is the other way round
                order = tuple(np.argsort(order).tolist())
            return _said(case, order, axis)
    return None


def _order(tensor: Tensor, shards: int, axis: int, target: Lanes) -> tuple[int, ...] | None:
    size = list(rows_and_cols(tensor.shape))
    size[axis] //= shards
    starts = [(size[0] * n, 0) if axis == 0 else (0, size[1] * n) for n in range(shards)]
    boxes = [
        Box(size=tuple(size), offset=place, local_offset=shard)  # type: ignore[arg-type]
        for shard in starts
        for place in starts
    ]
    taken = fingerprint_many([Part(tensor, box) for box in boxes], statistics=False)
    lanes: NDArray[np.uint64] = np.array([part.lanes for part in taken], np.uint64).reshape(shards, shards, 2)
    orders = np.array(list(itertools.permutations(range(shards))))
    sums = lanes[np.arange(shards), orders].sum(axis=1, dtype=np.uint64)
    fits = np.flatnonzero((sums == np.array(target, np.uint64)).all(axis=1))
    return tuple(orders[fits[0]].tolist()) if len(fits) else None


def _said(case: Case, order: tuple[int, ...], axis: int) -> str:
    if len(order) == 2 and axis == 0 and "gate_up" in case.word:
        return f"gate and up are exchanged inside {case.word}"
    along = ("rows", "columns")[axis]
    if len(case.right.shape) > 2 and axis == 0:
        return f"{len(order)} blocks of {case.word}'s stack are in the order {','.join(map(str, order))}"
    return f"TP shards of {case.word} are in the order {','.join(map(str, order))} ({along})"
