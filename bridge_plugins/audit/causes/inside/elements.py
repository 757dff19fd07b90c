"""Some elements are wrong and the rest are right: how many, which, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Case
from bridge_plugins.audit.causes.wording import numbered
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.formats import format_of

_FEW = 8  #: of so many elements one is wrong at most, where all that is known of them is that they differ


def explain(case: Case) -> str | None:
    """``3 of 4,096 elements of o_proj are zero (row 1, columns 5-7)``: also NaN, with the other sign, or merely other.

    Takes both tensors. Says nothing where most elements differ and nothing else is known of them.
    """
    found, should = case.wrong_tensor, case.right_tensor
    if found is None or should is None or not case.same_kind or not case.right.shape:
        return None
    wrong = _Wrong()
    width = rows_and_cols(should.shape).cols
    for at, one, other in case.pieces():
        wrong.take(one, other, at, width)
        if not wrong.of_one_kind and wrong.count * _FEW > case.right.elements:
            return None
    if not wrong.count:
        return None
    said = f"{wrong.count:,} of {case.right.elements:,} elements of {case.word} {wrong.happened}"
    return said if wrong.count == case.right.elements else f"{said} ({wrong.where(case.right.shape)})"


@dataclass
class _Wrong:
    """The elements that differ, as they come, some megabytes at a time."""

    count: int = 0
    negated: bool = True
    zero: bool = True
    infinite: bool = True
    apart: int = 0  #: the bits in which the last one differs
    rows: tuple[int, int] = (0, 0)  #: first and last
    cols: tuple[int, int] = (0, 0)

    @property
    def of_one_kind(self) -> bool:
        """One thing became of all of them."""
        return self.negated or self.zero or self.infinite

    def take(self, found: Tensor, should: Tensor, start: int, width: int) -> None:
        apart = _bits(found) ^ _bits(should)
        at = apart.nonzero().flatten()
        if not len(at):
            return
        values, apart = found[at], apart[at]
        floats = found.is_floating_point()
        self.negated &= floats and bool((apart == torch.iinfo(apart.dtype).min).all())
        self.zero &= bool((values == 0).all())
        self.infinite &= floats and not bool(values.isfinite().any())
        self.apart = int(apart[-1]) & ((1 << 8 * apart.element_size()) - 1)
        at = at + start
        self.rows = self._wider(self.rows, at // width)
        self.cols = self._wider(self.cols, at % width)
        self.count += len(at)

    def _wider(self, known: tuple[int, int], at: Tensor) -> tuple[int, int]:
        first, last = int(at.min()), int(at.max())
        return (min(known[0], first), max(known[1], last)) if self.count else (first, last)

    @property
    def happened(self) -> str:
        one = self.count == 1
        if self.negated:
            return "has the other sign" if one else "have the other sign"
        if self.zero:
            return "is zero" if one else "are zero"
        if self.infinite:
            return "is NaN or infinite" if one else "are NaN or infinite"
        if not one:
            return "differ"
        return f"differs in bit {self.apart.bit_length() - 1}" if self.apart.bit_count() == 1 else "differs"

    def where(self, shape: tuple[int, ...]) -> str:
        """The smallest rectangle that holds them, of the tensor seen as rows × last dimension."""
        columns = numbered("column", range(self.cols[0], self.cols[1] + 1))
        return (
            columns
            if len(shape) == 1
            else f"{numbered('row', range(self.rows[0], self.rows[1] + 1))}, {columns}"
        )


def _bits(tensor: Tensor) -> Tensor:
    return tensor.view(format_of(tensor.dtype).integer)
