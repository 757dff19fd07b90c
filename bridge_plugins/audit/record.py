"""One tensor's facts, as the audit keeps them: some 200 bytes, whatever the tensor's size."""

from __future__ import annotations

import msgspec

from bridge_plugins.fingerprint import Fingerprint


class Record(msgspec.Struct, frozen=True):
    """What was seen of one tensor in a stream.

    `lanes` is its fingerprint; `norm` the root of its sum of squares; `absmax` of its finite elements; `zeros` and
    `nonfinite` count elements. `dtype` as torch spells it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    lanes: tuple[int, int]
    nbytes: int
    norm: float = 0.0
    absmax: float = 0.0
    zeros: int = 0
    nonfinite: int = 0

    @classmethod
    def of(cls, name: str, shape: tuple[int, ...], nbytes: int, fingerprint: Fingerprint) -> Record:
        """The record of a tensor from its fingerprint."""
        facts = fingerprint.statistics
        lanes = fingerprint.lanes
        if facts is None:
            return cls(name, shape, fingerprint.dtype, lanes, nbytes)
        return cls(
            name, shape, fingerprint.dtype, lanes, nbytes,
            facts.sum_of_squares**0.5, facts.absmax, facts.zeros, facts.nonfinite,
        )  # fmt: skip
