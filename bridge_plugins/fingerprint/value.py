"""What a pass over a tensor yields: a fingerprint that adds up, and statistics."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bridge_plugins.fingerprint.coverage import Coverage
from bridge_plugins.fingerprint.keys import MASK64, VERSION

Lanes = tuple[int, int]
"""Both lanes of a fingerprint, below 2**64."""


def sum_of_lanes(parts: Iterable[Lanes]) -> Lanes:
    """The lanes of a tensor from those of its parts."""
    low = high = 0
    for one, other in parts:
        low, high = low + one, high + other
    return low & MASK64, high & MASK64


@dataclass(frozen=True, slots=True)
class Statistics:
    """Facts about the values, of finite elements unless said otherwise. Never part of a digest.

    `sum_of_squares` repeats bit for bit for the same tensor on the same path; across shardings and paths it
    agrees to a relative 1e-5. The other numbers are exact. Packed 4-bit values are counted as bytes.
    """

    absmax: float = 0.0
    sum_of_squares: float = 0.0
    zeros: int = 0
    nans: int = 0
    infs: int = 0

    @property
    def nonfinite(self) -> int:
        """NaN and infinite elements together."""
        return self.nans + self.infs

    def __add__(self, other: Statistics) -> Statistics:
        return Statistics(
            max(self.absmax, other.absmax),
            self.sum_of_squares + other.sum_of_squares,
            self.zeros + other.zeros,
            self.nans + other.nans,
            self.infs + other.infs,
        )


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of a tensor or of a part of one, at its place in the whole.

    Equal means: same version, same dtype, same lanes, and the same elements covered equally often. Statistics
    and `lossy` are facts beside it and aren't compared. `+` adds parts of one tensor; replicas are compared,
    not added.

    Attributes:
        lanes: two numbers below 2**64.
        dtype: the dtype whose bits were taken, as in "bfloat16".
        coverage: which elements of the whole tensor were taken.
        statistics: facts about the values; None if they weren't asked for.
        lossy: elements that `as_dtype` can't hold exactly; 0 without `as_dtype`.
        version: version of the definition.
    """

    lanes: Lanes
    dtype: str
    coverage: Coverage
    statistics: Statistics | None = field(default=None, compare=False)
    lossy: int = field(default=0, compare=False)
    version: int = VERSION

    @property
    def count(self) -> int:
        """Elements taken; one that was taken twice counts twice."""
        return self.coverage.count

    def __add__(self, other: Fingerprint) -> Fingerprint:
        if (self.dtype, self.version) != (other.dtype, other.version):
            raise ValueError(
                f"parts of one tensor have one dtype and version, not {self.dtype} (version {self.version}) "
                f"and {other.dtype} (version {other.version}); take wider parts with as_dtype="
            )
        both = self.statistics is not None and other.statistics is not None
        return Fingerprint(
            lanes=sum_of_lanes((self.lanes, other.lanes)),
            dtype=self.dtype,
            coverage=self.coverage + other.coverage,
            statistics=self.statistics + other.statistics if both else None,  # type: ignore[operator]
            lossy=self.lossy + other.lossy,
            version=self.version,
        )

    def __radd__(self, other: int) -> Fingerprint:
        """`sum(parts)` starts with 0."""
        if other != 0:
            return NotImplemented
        return self
