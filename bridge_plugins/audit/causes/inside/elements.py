"""Some elements are wrong and the rest are right: how many, which, and what became of them."""

from __future__ import annotations

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case
from bridge_plugins.audit.causes.wording import numbered
from bridge_plugins.fingerprint.coverage import rows_and_cols

_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_FEW = 8  #: of so many elements one is wrong at most, where all that is known of them is that they differ


def explain(case: Case) -> str | None:
    """``3 of 4,096 elements of o_proj are zero (row 1, columns 5-7)``: also NaN, with the other sign, or merely other.

    Takes both tensors. Says nothing where most elements differ and nothing else is known of them.
    """
    found, should = case.wrong_tensor, case.right_tensor
    if found is None or should is None or not case.same_kind or not case.right.shape:
        return None
    apart = _bits(found) ^ _bits(should)
    differ = apart != 0
    count = int(differ.sum())
    if not count:
        return None
    happened = _happened(found[differ], apart[differ], one=count == 1)
    if happened is None and count * _FEW > case.right.elements:
        return None
    said = (
        f"{count:,} of {case.right.elements:,} elements of {case.word} {happened or _differ(apart[differ])}"
    )
    return said if count == case.right.elements else f"{said} ({_where(differ)})"


def _happened(found: Tensor, apart: Tensor, *, one: bool) -> str | None:
    """What became of the elements that are wrong, if one thing became of all."""
    floats = found.is_floating_point()
    if floats and bool((apart == torch.iinfo(apart.dtype).min).all()):
        return "has the other sign" if one else "have the other sign"
    if bool((found == 0).all()):
        return "is zero" if one else "are zero"
    if floats and not bool(found.isfinite().any()):
        return "is NaN or infinite" if one else "are NaN or infinite"
    return None


def _differ(apart: Tensor) -> str:
    if len(apart) > 1:
        return "differ"
    bits = int(apart[0]) & ((1 << 8 * apart.element_size()) - 1)
    return f"differs in bit {bits.bit_length() - 1}" if bits.bit_count() == 1 else "differs"


def _where(differ: Tensor) -> str:
    """The smallest rectangle that holds them, of the tensor seen as rows × last dimension."""
    seen = differ.reshape(rows_and_cols(differ.shape))
    rows, cols = (seen.any(dim=1 - axis).nonzero().flatten().tolist() for axis in (0, 1))
    columns = numbered("column", range(cols[0], cols[-1] + 1))
    return columns if differ.dim() == 1 else f"{numbered('row', range(rows[0], rows[-1] + 1))}, {columns}"


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(_INTEGERS[tensor.element_size()])
