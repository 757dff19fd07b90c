"""The numbers that a pass over many blocks yields, column by column, before they become values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.value import Fingerprint, Statistics


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """One entry per block.

    Attributes:
        lanes: uint64, n × 2.
        absmax: float64, n; the largest finite magnitude.
        sum_of_squares: float64, n.
        counts: int64, n × 4: zeros, NaN, Inf, elements that as_dtype can't hold.
    """

    lanes: NDArray[np.uint64]
    absmax: NDArray[np.float64]
    sum_of_squares: NDArray[np.float64]
    counts: NDArray[np.int64]

    @staticmethod
    def empty(n: int) -> Measured:
        """Zeros for n blocks."""
        return Measured(np.zeros((n, 2), np.uint64), np.zeros(n), np.zeros(n), np.zeros((n, 4), np.int64))

    @staticmethod
    def joined(several: Sequence[Measured]) -> Measured:
        """One after the other."""
        if not several:
            return Measured.empty(0)
        return Measured(
            np.concatenate([each.lanes for each in several]),
            np.concatenate([each.absmax for each in several]),
            np.concatenate([each.sum_of_squares for each in several]),
            np.concatenate([each.counts for each in several]),
        )

    def add_up(self, starts: NDArray[np.int64]) -> Measured:
        """Sum neighbouring entries, in order: starts[i] to starts[i + 1] become entry i; none is empty."""
        return Measured(
            np.add.reduceat(self.lanes, starts, axis=0),
            np.maximum.reduceat(self.absmax, starts),
            np.add.reduceat(self.sum_of_squares, starts),
            np.add.reduceat(self.counts, starts, axis=0),
        )

    def put(self, at: NDArray[np.int64], other: Measured) -> None:
        """Write another's entries at these indices."""
        self.lanes[at] = other.lanes
        self.absmax[at] = other.absmax
        self.sum_of_squares[at] = other.sum_of_squares
        self.counts[at] = other.counts

    def set(self, index: int, value: Fingerprint) -> None:
        """Write one entry."""
        stats = value.statistics or Statistics()
        self.lanes[index] = value.lanes
        self.absmax[index] = stats.absmax
        self.sum_of_squares[index] = stats.sum_of_squares
        self.counts[index] = (stats.zeros, stats.nans, stats.infs, value.lossy)
