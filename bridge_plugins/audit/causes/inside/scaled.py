"""Every element is the reference's times one number: a factor that was applied once too often, or not."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View
from bridge_plugins.fingerprint.formats import named


def explain(case: Case) -> str | None:
    """``o_proj is the reference times 0.5``. The norms of both say which power of two it could be.

    With both tensors at hand it may be another number, if each element is its product to within one rounding.
    """
    floats = case.right.dtype.startswith(("float", "bfloat"))
    if not case.same_kind or not floats or not (case.wrong.norm and case.right.norm):
        return None
    size = 2.0 ** round(math.log2(case.wrong.norm / case.right.norm))
    factors = [factor for factor in (size, -size) if factor not in (1.0, -1.0)]
    for factor in factors:
        if case.changes_to_wrong(_times(factor)) or case.changes_to_right(_times(1 / factor)):
            return f"{case.word} is the reference times {factor:g}"
    if case.wrong_tensor is not None and case.right_tensor is not None:
        return _by_any(case)
    return None


def _by_any(case: Case) -> str | None:
    products = squares = 0.0
    for one, other in _in_double(case):
        products += float((one * other).sum())
        squares += float(other.square().sum())
    factor = products / squares if squares else 1.0
    of = torch.finfo(named(case.right.dtype).dtype)
    rounding = of.eps
    # A factor so close to one that roundings swallow it would explain anything.
    if not abs(factor - 1) > 8 * rounding:
        return None
    # Below the smallest normal number roundings are of one size.
    exact = all(
        bool(((one - factor * other).abs() <= rounding * one.abs().clamp(min=of.tiny)).all())
        for one, other in _in_double(case)
    )
    return f"{case.word} is the reference times {factor:.4g}" if exact else None


def _in_double(case: Case) -> Iterator[tuple[Tensor, Tensor]]:
    return ((one.double(), other.double()) for _, one, other in case.pieces())


def _times(factor: float) -> View:
    def view(tensor: Tensor) -> Tensor:
        return (tensor.float() * factor).to(tensor.dtype)

    return view
