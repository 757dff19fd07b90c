"""One stage of one version while it flows: facts of each tensor, and no tensor."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np

from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import FingerprintStream
from bridge_plugins.fingerprint.pending import PendingFingerprints

logger = logging.getLogger(__name__)


class Seen(msgspec.Struct, frozen=True, gc=False):  # the garbage collector need not count them
    """What is known of a tensor at once, without waiting for its fingerprint."""

    name: str
    shape: tuple[int, ...]
    nbytes: int
    bucket: int | None
    contiguous: bool


@dataclass(frozen=True)
class Taken:
    """What a recording held, once it was read.

    Attributes:
        records: one per tensor, in the order in which they came.
        manifest: digest of that order, with names, dtypes, shapes and bytes.
        repeated: names that came more than once; `conflicting` those of them whose bits differed.
        unread: names whose tensor has no fingerprint, and why.
        partial: why this is not the whole model; empty if nothing says so.
        seconds: time spent.
    """

    records: tuple[Record, ...]
    manifest: str
    repeated: tuple[str, ...]
    conflicting: tuple[str, ...]
    unread: dict[str, str]
    partial: str
    seconds: float


@dataclass(eq=False)  # each is its own, and can be listened for
class Recording:
    """Collects one stage. Nothing that goes wrong here reaches the stream."""

    partial: str = ""
    seconds: float = 0.0
    _seen: list[Seen] = field(default_factory=list, init=False)
    _shapes: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict, init=False)
    _unread: dict[str, str] = field(default_factory=dict, init=False)
    _fingerprints: FingerprintStream = field(default_factory=FingerprintStream, init=False)

    def __len__(self) -> int:
        return len(self._seen) + len(self._unread)

    def add(self, item: Any, bucket: int | None = None, *, strided: bool = True) -> None:
        """Take the facts of an item, which begins with (HF name, tensor). On a GPU one launch, and no wait.

        `strided` says that whoever takes the tensor reads it by its strides.
        """
        started = time.perf_counter()
        name = "?"
        try:
            name, tensor = item[0], item[1]
            self._fingerprints.add(tensor)
            whole = strided or tensor.is_contiguous()
            shape = self._shapes.setdefault(tensor.shape, tuple(tensor.shape))  # a model has few
            self._seen.append(Seen(str(name), shape, tensor.nbytes, bucket, whole))
        except Exception as error:  # an audit must not break the export that it watches
            logger.warning("%s could not be fingerprinted: %s: %s", name, type(error).__name__, error)
            self._unread[str(name)] = f"{type(error).__name__}: {error}"
        self.seconds += time.perf_counter() - started

    def take(self) -> Taken:
        """Wait for the fingerprints, read them once, and start anew."""
        started = time.perf_counter()
        records = tuple(_records(self._seen, self._fingerprints.pending()))
        times = Counter(record.name for record in records)
        repeated = tuple(name for name, count in times.items() if count > 1)
        again = set(repeated)
        bits = {(r.name, r.lanes, r.dtype, r.shape) for r in records if r.name in again}
        conflicting = tuple(n for n, c in Counter(name for name, *_ in bits).items() if c > 1)
        seconds = self.seconds + time.perf_counter() - started
        taken = Taken(records, _manifest(records), repeated, conflicting, self._unread, self.partial, seconds)
        self._seen, self._unread, self.seconds = [], {}, 0.0
        return taken


def _records(seen: list[Seen], pending: PendingFingerprints) -> Iterator[Record]:
    """By columns: a model has tens of thousands of tensors, and its push waits."""
    numbers = pending.measured()
    columns = (
        map(tuple, numbers.lanes.tolist()),
        np.sqrt(numbers.sum_of_squares).tolist(),
        numbers.absmax.tolist(),
        numbers.counts[:, 0].tolist(),
        numbers.counts[:, 1:3].sum(axis=1).tolist(),
    )
    for one, dtype, lanes, norm, absmax, zeros, nonfinite in zip(seen, pending.dtypes, *columns, strict=True):
        yield Record(
            one.name, one.shape, dtype, lanes, one.nbytes, norm, absmax, zeros, nonfinite, one.bucket, one.contiguous
        )  # fmt: skip


def _manifest(records: tuple[Record, ...]) -> str:
    digest = blake2b(digest_size=16)
    for record in records:
        digest.update(f"{record.name}\0{record.dtype}\0{record.shape}\0{record.nbytes}\n".encode())
    return digest.hexdigest()
