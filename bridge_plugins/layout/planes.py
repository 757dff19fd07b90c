"""The planes of digits that spell, together, every element's tensor number, row and column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.layout.codes import BASE, CODE_A, CODE_B, CODED_DTYPES, digits_for, encode
from bridge_plugins.layout.sources import Source

TENSOR, ROW, COLUMN = "tensor", "row", "column"


@dataclass(frozen=True)
class Plane:
    """One load of coded weights: which number it spells, which digit of it (0 is the lowest), in which code."""

    number: str
    digit: int
    code: str = CODE_A


def coded_sources(sources: Sequence[Source]) -> list[Source]:
    """The tensors whose dtype can carry a digit in each element; their place in this list is their number."""
    return [source for source in sources if getattr(torch, source.dtype, None) in CODED_DTYPES]


def planes_for(sources: Sequence[Source]) -> list[Plane]:
    """The planes that `sources` need. The second one repeats the first in the other code: it proves copying."""
    sizes = [rows_and_cols(source.shape) for source in sources]
    need = {
        TENSOR: digits_for(len(sources)),
        ROW: digits_for(max((size.rows for size in sizes), default=1)),
        COLUMN: digits_for(max((size.cols for size in sizes), default=1)),
    }
    planes = [Plane(number, digit) for number, digits in need.items() for digit in range(digits)]
    return [planes[0], Plane(TENSOR, 0, CODE_B), *planes[1:]]


class Coded:
    """The weights of one plane, each made when it is asked for: nothing is kept, and a loader may change what it gets.

    Iterates over ``(HF name, coded tensor)`` in the order of `sources`; ``coded[name]`` is one of them.
    """

    def __init__(self, sources: Sequence[Source], plane: Plane, device: torch.device) -> None:
        self.plane = plane
        self._sources = sources
        self._device = device
        self._patterns: dict[tuple[int, torch.dtype], Tensor] = {}
        self._numbers = {source.name: number for number, source in enumerate(sources)}

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return ((source.name, self[source.name]) for source in self._sources)

    def __contains__(self, name: object) -> bool:
        return name in self._numbers

    def __getitem__(self, name: str) -> Tensor:
        number = self._numbers[name]
        source = self._sources[number]
        rows, cols = rows_and_cols(source.shape)
        pattern = self._pattern(number, rows, cols, getattr(torch, source.dtype))
        return pattern.expand(rows, cols).clone(memory_format=torch.contiguous_format).reshape(source.shape)

    def _pattern(self, number: int, rows: int, cols: int, dtype: torch.dtype) -> Tensor:
        """The codes along the axis that this plane counts; the other one repeats them. Few shapes make a model."""
        plane, device = self.plane, self._device
        count = {TENSOR: number, ROW: rows, COLUMN: cols}[plane.number]
        if (count, dtype) in self._patterns:
            return self._patterns[count, dtype]
        if plane.number == TENSOR:
            values = torch.full((1, 1), number, device=device)
        elif plane.number == ROW:
            values = torch.arange(rows, device=device)[:, None]
        else:
            values = torch.arange(cols, device=device)[None, :]
        pattern = encode(values // BASE**plane.digit % BASE, dtype, plane.code)
        if plane.number != TENSOR:
            self._patterns[count, dtype] = pattern
        return pattern
