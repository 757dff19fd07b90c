"""One stage of one version while it flows: facts of each tensor, and no tensor."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.audit.columns import NO_BUCKET, Columns
from bridge_plugins.audit.schema import Schema, Shape
from bridge_plugins.fingerprint import FingerprintStream, FingerprintTable
from bridge_plugins.fingerprint.flat import FlatTable, Slice

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Taken:
    """What a recording held, once it was read.

    Attributes:
        columns: of the tensors in the order in which they came.
        conflicting: names that came more than once with different bits.
        unread: names whose tensor has no fingerprint, and why.
        partial: why this is not the whole model; empty if nothing says so.
        seconds: time spent.
    """

    columns: Columns
    conflicting: tuple[str, ...]
    unread: dict[str, str]
    partial: str
    seconds: float


@dataclass(eq=False)  # each is its own, and can be listened for
class Recording:
    """Collects one stage. Nothing that goes wrong here reaches the stream."""

    partial: str = ""
    seconds: float = 0.0
    # Of each tensor, by columns: no object is made for it.
    _names: list[str] = field(default_factory=list, init=False)
    _shapes: list[Shape] = field(default_factory=list, init=False)
    _known: dict[Shape, Shape] = field(default_factory=dict, init=False)  # the garbage collector counts few
    _nbytes: list[int] = field(default_factory=list, init=False)
    _buckets: list[int] = field(default_factory=list, init=False)
    _strided: list[int] = field(default_factory=list, init=False)
    _unread: dict[str, str] = field(default_factory=dict, init=False)
    _fingerprints: FingerprintStream = field(default_factory=FingerprintStream, init=False)

    def __len__(self) -> int:
        return len(self._names) + len(self._unread)

    def add(self, item: Any, bucket: int | None = None, *, strided: bool = True) -> None:
        """Take the facts of an item, which begins with (HF name, tensor). On a GPU one launch, and no wait.

        `strided` says that whoever takes the tensor reads it by its strides.
        """
        started = perf_counter()
        name = "?"
        try:
            name, tensor = item[0], item[1]
            self._fingerprints.add(tensor)
            shape, nbytes = tensor.shape, tensor.nbytes
            shape = self._known.setdefault(shape, shape)
            if not (strided or tensor.is_contiguous()):
                self._strided.append(len(self._names))
            self._names.append(str(name))
            self._shapes.append(shape)
            self._nbytes.append(nbytes)
            self._buckets.append(NO_BUCKET if bucket is None else bucket)
        except Exception as error:  # an audit must not break the export that it watches
            logger.warning("%s could not be fingerprinted: %s: %s", name, type(error).__name__, error)
            self._unread[str(name)] = f"{type(error).__name__}: {error}"
        self.seconds += perf_counter() - started

    def add_all(self, items: Sequence[Any]) -> None:
        """Take the facts of items that are all at hand. On a GPU one launch for all, and no wait."""
        started = perf_counter()
        try:
            names = [str(item[0]) for item in items]
            table = self._fingerprints.add_all([item[1] for item in items])
        except Exception as error:  # something among them that can't be read: it is said of that one alone
            logger.info("%d tensors are read one by one: %s: %s", len(items), type(error).__name__, error)
            for item in items:
                self.add(item)
            return
        self._keep(names, table, None)
        self.seconds += perf_counter() - started

    def add_flat(self, buffer: Tensor, named: Sequence[tuple[str, Slice]], bucket: int | None = None) -> None:
        """Take the facts of all tensors that lie in a buffer of bytes. On a GPU one launch for all, and no wait."""
        started = perf_counter()
        names, slices = zip(*named, strict=True)
        try:
            table = self._fingerprints.add_flat(buffer, slices)
        except Exception as error:  # something among them that no kernel takes: it is said of that one alone
            logger.info("a bucket's tensors are read one by one: %s: %s", type(error).__name__, error)
            data = buffer.view(torch.uint8)
            for name, (start, shape, dtype) in named:
                end = start + prod(shape) * dtype.itemsize
                self.add((name, data[start:end].view(dtype).view(shape)), bucket, strided=False)
            return
        self._keep(names, table, bucket)
        self.seconds += perf_counter() - started

    def _keep(self, names: Sequence[str], table: FlatTable | FingerprintTable, bucket: int | None) -> None:
        self._names += names
        self._shapes += table.shapes
        self._nbytes += table.nbytes
        self._buckets += [NO_BUCKET if bucket is None else bucket] * len(names)

    def take(self) -> Taken:
        """Wait for the fingerprints, read them once, and start anew."""
        started = perf_counter()
        columns = self._columns()
        seconds = self.seconds + perf_counter() - started
        taken = Taken(columns, _conflicting(columns), self._unread, self.partial, seconds)
        self._names, self._shapes, self._nbytes, self._buckets, self._strided = [], [], [], [], []
        self._unread, self.seconds = {}, 0.0
        return taken

    def _columns(self) -> Columns:
        pending = self._fingerprints.pending()
        numbers = pending.measured()
        contiguous = np.ones(len(self._names), np.bool_)
        contiguous[self._strided] = False
        return Columns(
            Schema.of(self._names, self._shapes, pending.dtypes, self._nbytes),
            numbers.lanes, np.sqrt(numbers.sum_of_squares), numbers.absmax,
            zeros=numbers.counts[:, 0], nonfinite=numbers.counts[:, 1] + numbers.counts[:, 2],
            bucket=np.array(self._buckets, np.int64), contiguous=contiguous,
        )  # fmt: skip


def _conflicting(columns: Columns) -> tuple[str, ...]:
    schema = columns.schema
    again, bits = set(schema.repeated), defaultdict(set)
    for at, name in enumerate(schema.names if again else ()):
        if name in again:
            bits[name].add((schema.dtypes[at], schema.shapes[at], *columns.lanes[at].tolist()))
    return tuple(name for name, different in bits.items() if len(different) > 1)
