"""Shards were glued along the wrong axis: twice the rows and half the columns, or the other way round."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case
from bridge_plugins.fingerprint import Box, Part, fingerprint_many
from bridge_plugins.fingerprint.box import Pair
from bridge_plugins.fingerprint.value import Lanes, sum_of_lanes


def explain(case: Case) -> str | None:
    """``2 TP shards of o_proj are glued along rows instead of columns``."""
    if len(case.right.shape) != 2 or len(case.wrong.shape) != 2 or not case.may_be_rearranged:
        return None
    (rows, cols), (found, _) = case.right.shape, case.wrong.shape
    if rows == found or 0 in case.right.shape:
        return None
    if found % rows == 0 and cols % (found // rows) == 0:
        shards, along = found // rows, "rows instead of columns"
    elif rows % found == 0:
        shards, along = rows // found, "columns instead of rows"
    else:
        return None
    tensor, record = (
        (case.wrong_tensor, case.right) if case.wrong_tensor is not None else (case.right_tensor, case.wrong)
    )
    fits = tensor is not None and _moved(tensor, shards, record.shape) == record.lanes
    return f"{shards} TP shards of {case.word} are glued along {along}" if fits else None


def _moved(tensor: Tensor, shards: int, shape: tuple[int, ...]) -> Lanes:
    """The fingerprint of the matrix of `shape` whose shards along one axis are the tensor's along the other."""
    rows, cols = min(len(tensor), shape[0]), min(tensor.shape[1], shape[1])
    below = [(rows * shard, 0) for shard in range(shards)]
    beside = [(0, cols * shard) for shard in range(shards)]
    there, here = (below, beside) if len(tensor) == rows else (beside, below)
    boxes = [
        Box(size=Pair(rows, cols), offset=Pair(*to), local_offset=Pair(*of))
        for to, of in zip(there, here, strict=True)
    ]
    parts = fingerprint_many([Part(tensor, box) for box in boxes], statistics=False)
    return sum_of_lanes(part.lanes for part in parts)
