"""Shards were glued along the wrong axis: twice the rows and half the columns, or the other way round."""

from __future__ import annotations

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View


def explain(case: Case) -> str | None:
    """``2 TP shards of o_proj are glued along rows instead of columns``."""
    if len(case.right.shape) != 2 or len(case.wrong.shape) != 2 or not case.may_be_rearranged:
        return None
    (rows, cols), (found, _) = case.right.shape, case.wrong.shape
    if rows == found or 0 in case.right.shape:
        return None
    if found % rows == 0 and cols % (found // rows) == 0:
        shards = found // rows
        fits = case.rearranged(_to_columns(shards), _to_rows(shards))
        along = "rows instead of columns"
    elif rows % found == 0:
        shards = rows // found
        fits = case.rearranged(_to_rows(shards), _to_columns(shards))
        along = "columns instead of rows"
    else:
        return None
    return f"{shards} TP shards of {case.word} are glued along {along}" if fits else None


def _to_columns(shards: int) -> View:
    def view(tensor: Tensor) -> Tensor:
        rows, cols = tensor.shape
        return (
            tensor.reshape(shards, rows // shards, cols)
            .transpose(0, 1)
            .reshape(rows // shards, shards * cols)
        )

    return view


def _to_rows(shards: int) -> View:
    def view(tensor: Tensor) -> Tensor:
        rows, cols = tensor.shape
        return (
            tensor.reshape(rows, shards, cols // shards)
            .transpose(0, 1)
            .reshape(shards * rows, cols // shards)
        )

    return view
