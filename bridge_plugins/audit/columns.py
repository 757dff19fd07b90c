"""The records of a stage as arrays: a model has tens of thousands of tensors, and its push waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.record import Record
from bridge_plugins.audit.schema import Indices, Schema

NO_BUCKET = -1


@dataclass(frozen=True, eq=False)
class Columns:
    """One entry per tensor, in the order of the schema.

    Attributes:
        lanes: uint64, n × 2.
        norm, absmax: float64; `zeros` and `nonfinite`: int64. See `Record`.
        bucket: int64; `NO_BUCKET` for none.
        contiguous: bool.
    """

    schema: Schema
    lanes: NDArray[np.uint64]
    norm: NDArray[np.float64]
    absmax: NDArray[np.float64]
    zeros: NDArray[np.int64]
    nonfinite: NDArray[np.int64]
    bucket: NDArray[np.int64]
    contiguous: NDArray[np.bool_]

    @staticmethod
    def of(records: Iterable[Record]) -> Columns:
        """Of records, in their order."""
        rows = list(records)
        return Columns(
            Schema.of(
                [r.name for r in rows], [r.shape for r in rows], [r.dtype for r in rows], [r.nbytes for r in rows]
            ),
            np.array([r.lanes for r in rows], np.uint64).reshape(-1, 2),
            np.array([r.norm for r in rows], np.float64),
            np.array([r.absmax for r in rows], np.float64),
            np.array([r.zeros for r in rows], np.int64),
            np.array([r.nonfinite for r in rows], np.int64),
            np.array([NO_BUCKET if r.bucket is None else r.bucket for r in rows], np.int64),
            np.array([r.contiguous for r in rows], np.bool_),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.schema)

    def where(self, mask: NDArray[np.bool_]) -> list[str]:
        """The names of those for which it is true."""
        return [self.schema.names[index] for index in np.flatnonzero(mask).tolist()]

    def records(self) -> dict[str, Record]:
        """By name; of a name that came more than once the last."""
        schema = self.schema
        made = map(
            Record, schema.names, schema.shapes, schema.dtypes,
            zip(self.lanes[:, 0].tolist(), self.lanes[:, 1].tolist(), strict=True), schema.nbytes,
            self.norm.tolist(), self.absmax.tolist(), self.zeros.tolist(), self.nonfinite.tolist(),
            (None if bucket == NO_BUCKET else bucket for bucket in self.bucket.tolist()), self.contiguous.tolist(),
        )  # fmt: skip
        return dict(zip(schema.names, made, strict=True))


def differing(one: Columns, other: Columns, at: Indices) -> NDArray[np.bool_]:
    """Whether the bits of each of `one` differ from those of `other` at that index; not where there is none (-1)."""
    differ: NDArray[np.bool_] = (one.lanes != other.lanes[at]).any(axis=1) if len(other) else at >= 0
    return differ & (at >= 0)
