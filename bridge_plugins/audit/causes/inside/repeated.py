"""Every shard holds the first one's weights: a gather that read its own rank only."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.by_piece import lanes
from bridge_plugins.audit.causes.inside.case import Case
from bridge_plugins.fingerprint.coverage import rows_and_cols

SHARDS = (2, 4, 8)


def explain(case: Case) -> str | None:
    """``all 2 TP shards of o_proj hold the same bits (columns)``."""
    tensor = case.wrong_tensor
    if tensor is None or not case.same_kind:
        return None
    matrix = tensor.reshape(rows_and_cols(tensor.shape))
    for axis, along in ((0, "rows"), (1, "columns")):
        for shards in reversed(SHARDS):
            if (
                matrix.shape[axis] % shards == 0
                and matrix.shape[axis] > shards
                and _same(matrix, axis, shards)
            ):
                return f"all {shards} TP shards of {case.word} hold the same bits ({along})"
    return None


def _same(matrix: Tensor, axis: int, shards: int) -> bool:
    first, *others = matrix.chunk(shards, dim=axis)
    if any(lanes(other) != lanes(first) for other in others):
        return False
    # One value everywhere says nothing about shards.
    return not all(bool((row == first[0, 0]).all()) for row in first)
