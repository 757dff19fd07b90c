"""One tensor's facts, as the audit keeps them: some 200 bytes, whatever the tensor's size."""

from __future__ import annotations

import math

import msgspec

from bridge_plugins.fingerprint import Fingerprint


class Record(msgspec.Struct, frozen=True, gc=False):
    """What was seen of one tensor in a stream.

    `lanes` is its fingerprint; `norm` the root of its sum of squares; `absmax` of its finite elements; `zeros` and
    `nonfinite` count elements. `dtype` as torch spells it. `bucket` numbers the calls that handed tensors to a
    transport; None on stages that have none. `contiguous` is false for a view that was
    handed to a transport which sends memory as it lies.
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
    bucket: int | None = None
    contiguous: bool = True

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @classmethod
    def of(
        cls,
        name: str,
        shape: tuple[int, ...],
        nbytes: int,
        fingerprint: Fingerprint,
        bucket: int | None = None,
        contiguous: bool = True,
    ) -> Record:
        """The record of a tensor from its fingerprint."""
        facts = fingerprint.statistics
        lanes = fingerprint.lanes
        made = cls(name, shape, fingerprint.dtype, lanes, nbytes, bucket=bucket, contiguous=contiguous)
        if facts is None:
            return made
        return msgspec.structs.replace(
            made,
            norm=facts.sum_of_squares**0.5,
            absmax=facts.absmax,
            zeros=facts.zeros,
            nonfinite=facts.nonfinite,
        )
