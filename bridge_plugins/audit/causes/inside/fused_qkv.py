"""A fused q/k/v projection in the trainer's order (q, k, v of each group) instead of all q, all k, all v."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View

HEADS = (16, 32, 64, 80, 96, 128, 192, 256)


def explain(case: Case) -> str | None:
    """``q, k and v of qkv_proj lie by group (8 groups of 4 + 2 heads of 128) instead of all q, all k, all v``."""
    if "qkv" not in case.word or not case.same_kind or not case.may_be_rearranged:
        return None
    for head, groups, queries in _layouts(case.right.shape[0]):
        glued, split = by_group(head, groups, queries), apart(head, groups, queries)
        layout = f"{groups} groups of {queries} + 2 heads of {head}"
        if case.has_rows_rearranged(split, glued):
            return f"q, k and v of {case.word} lie by group ({layout}) instead of all q, all k, all v"
        if case.has_rows_rearranged(glued, split):
            return f"{case.word} has all q, all k, all v instead of by group ({layout})"
    return None


def _layouts(rows: int) -> Iterator[tuple[int, int, int]]:
    for head in HEADS:
        heads = rows // head
        for groups in range(2, heads // 3 + 1) if rows % head == 0 else ():
            if heads % groups == 0:
                yield head, groups, heads // groups - 2


def apart(head: int, groups: int, queries: int) -> View:
    """Rows that lie by group become all q, all k, all v."""

    def view(tensor: Tensor) -> Tensor:
        split = tensor.reshape(groups, queries + 2, head, -1)
        parts = (split[:, :queries], split[:, queries], split[:, queries + 1])
        return torch.cat([part.reshape(-1, *tensor.shape[1:]) for part in parts])

    return view


def by_group(head: int, groups: int, queries: int) -> View:
    """All q, all k, all v become q, k and v of each group."""

    def view(tensor: Tensor) -> Tensor:
        rest = tensor.shape[1:]
        q, k, v = torch.split(tensor, [groups * queries * head, groups * head, groups * head])
        parts = (
            q.reshape(groups, queries * head, *rest),
            k.reshape(groups, head, *rest),
            v.reshape(groups, head, *rest),
        )
        return torch.cat(parts, dim=1).reshape(tensor.shape)

    return view
