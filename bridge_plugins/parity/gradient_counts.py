"""What a rank tells of its gradients, and what it adds up to over ranks. No torch."""

from __future__ import annotations

import hashlib

import msgspec

from bridge_plugins.audit.finding import Finding


class Counts(msgspec.Struct, frozen=True, array_like=True):
    """Numbers of local tensors, over all ranks: shards and copies alike.

    Attributes:
        tensors: parameters.
        frozen: of them, those that aren't trained.
        missing: those that are trained and have no gradient.
        zero: those whose gradient is zeros alone.
        nonfinite: those whose gradient has a NaN or an infinity.
        squares: the sum of squares of finite elements, each element of the model counted once.
    """

    tensors: int = 0
    frozen: int = 0
    missing: int = 0
    zero: int = 0
    nonfinite: int = 0
    squares: float = 0.0

    def __add__(self, other: Counts) -> Counts:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return Counts(*(a + b for a, b in zip(mine, theirs, strict=True)))

    def times(self, ranks: int) -> Counts:
        """Of so many ranks that each tell this."""
        return Counts(*(number * ranks for number in msgspec.structs.astuple(self)))

    @property
    def norm(self) -> float:
        return float(self.squares**0.5)

    @property
    def silent(self) -> bool:
        """Whether there are gradients, and all of them are zeros."""
        return 0 < self.tensors - self.frozen - self.missing == self.zero


class Told(msgspec.Struct, frozen=True):
    """What a rank tells.

    Attributes:
        groups: layer → family → counts.
        missing, nonfinite: names in the whole model, of the first few such parameters.
    """

    groups: dict[str, dict[str, Counts]]
    missing: tuple[str, ...] = ()
    nonfinite: tuple[str, ...] = ()

    @property
    def digest(self) -> bytes:
        """Equal for ranks that tell the same."""
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).digest()


class Row(msgspec.Struct, frozen=True):
    """One family of one layer."""

    layer: str
    family: str
    counts: Counts


class Gradients(msgspec.Struct, frozen=True):
    """The gradients of one step, over all ranks: rows in model order, and what is wrong."""

    step: str
    rows: tuple[Row, ...]
    findings: tuple[Finding, ...]

    @property
    def total(self) -> Counts:
        return sum((row.counts for row in self.rows), Counts())

    def __str__(self) -> str:
        total = self.total
        return (
            f"gradients  step={self.step} tensors={total.tensors} norm={total.norm:.4g} frozen={total.frozen} "
            f"missing={total.missing} zero={total.zero} nonfinite={total.nonfinite}"
        )
