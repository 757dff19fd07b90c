"""Fingerprints that were queued and not yet read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.coverage import Coverage
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block
from bridge_plugins.fingerprint.readers import Result
from bridge_plugins.fingerprint.value import Fingerprint, Statistics


@dataclass(frozen=True, slots=True)
class Place:
    """What stands beside a part's numbers: where it lies, and the name of the dtype it was taken as."""

    coverage: Coverage
    dtype: str

    @staticmethod
    def of(block: Block) -> Place:
        """Of a block."""
        return Place(Coverage((block.box.place,)), block.taken.name)


class PendingFingerprints:
    """Numbers that lie where they were computed, until they are asked for; no tensor is kept."""

    def __init__(
        self, places: Sequence[Place], results: Sequence[tuple[NDArray[np.int64], Result]], statistics: bool
    ) -> None:
        self._places = places
        self._results = results
        self._statistics = statistics

    @property
    def dtypes(self) -> list[str]:
        """Of each part the dtype whose bits are taken, as in "bfloat16"."""
        return [place.dtype for place in self._places]

    def measured(self) -> Measured:
        """Wait, and take the numbers to the host as arrays, one entry per part."""
        out = Measured.empty(len(self._places))
        if self._results:
            order = np.concatenate([indices for indices, _ in self._results])
            out.put(order, Measured.joined([result() for _, result in self._results]))
        return out

    def read(self) -> list[Fingerprint]:
        """Wait, and take the numbers to the host as values, one per part."""
        numbers = self.measured()
        columns = (numbers.lanes, numbers.absmax, numbers.sum_of_squares, numbers.counts)
        out = []
        for place, (low, high), absmax, squares, (zeros, nans, infs, lossy) in zip(
            self._places, *(column.tolist() for column in columns), strict=True
        ):
            stats = Statistics(absmax, squares, zeros, nans, infs) if self._statistics else None
            out.append(Fingerprint((low, high), place.dtype, place.coverage, stats, lossy))
        return out
