"""Every element is the reference's times one power of two: a factor that was applied once too often, or not."""

from __future__ import annotations

import math

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case, View


def explain(case: Case) -> str | None:
    """``o_proj is the reference times 0.5``. The norms of both say which power of two it could be."""
    floats = case.right.dtype.startswith(("float", "bfloat"))
    if not case.same_kind or not floats or not (case.wrong.norm and case.right.norm):
        return None
    size = 2.0 ** round(math.log2(case.wrong.norm / case.right.norm))
    factors = [factor for factor in (size, -size) if factor not in (1.0, -1.0)]
    for factor in factors:
        if case.makes_wrong(_times(factor)) or case.makes_right(_times(1 / factor)):
            return f"{case.word} is the reference times {factor:g}"
    return None


def _times(factor: float) -> View:
    def view(tensor: Tensor) -> Tensor:
        return (tensor.float() * factor).to(tensor.dtype)

    return view
