"""Tensors at rest: how to read many blocks is worked out once, and kept from version to version."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint.alike import ALIGNMENT, kind_of
from bridge_plugins.fingerprint.backend import Backend, backend_of
from bridge_plugins.fingerprint.part import Block, Part, resolve
from bridge_plugins.fingerprint.pending import PendingFingerprints, Place
from bridge_plugins.fingerprint.readers import Reader, Result, reader

Queued = list[tuple[NDArray[np.int64], Result]]
"""What was queued, by reader: which parts, and their numbers."""


def _kind(tensor: Tensor) -> tuple[torch.Size, torch.dtype, torch.device, tuple[int, ...], bool]:
    return tensor.shape, tensor.dtype, tensor.device, tensor.stride(), tensor.is_neg()


def _distinct(tensors: Sequence[Tensor]) -> tuple[list[Tensor], NDArray[np.int64]]:
    """Each tensor once, and of every entry its number among them."""
    identities = np.fromiter(map(id, tensors), np.int64, len(tensors))
    _, first, number = np.unique(identities, return_index=True, return_inverse=True)
    return [tensors[index] for index in first], number


class FingerprintTable:
    """Blocks of tensors to be read together, as often as their contents change.

    Args:
        parts: what to read. Their tensors aren't kept.
        statistics: compute them in the same pass.

    Attributes:
        places, shapes, nbytes: of each part; shape and bytes are those of its whole tensor.

    Raises TypeError and ValueError as `fingerprint` does.
    """

    def __init__(self, parts: Sequence[Part], *, statistics: bool = True) -> None:
        blocks = [resolve(part) for part in parts]
        self._statistics = statistics
        tensors = [part.tensor for part in parts]
        kinds = list(map(_kind, tensors))
        self._numbers = {kind: number for number, kind in enumerate(dict.fromkeys(kinds))}
        self._kinds = np.array([self._numbers[kind] for kind in kinds], np.int64)
        offsets = [_offset(tensor, block) for tensor, block in zip(tensors, blocks, strict=True)]
        self._offsets = np.array([offset or 0 for offset in offsets], np.int64)
        self.places = [Place.of(block) for block in blocks]
        self.shapes = [tuple(tensor.shape) for tensor in tensors]
        self.nbytes = [tensor.nbytes for tensor in tensors]
        self._filled = np.flatnonzero(self.nbytes)
        members: dict[tuple[Backend, torch.device], list[int]] = {}
        for index, (offset, block) in enumerate(zip(offsets, blocks, strict=True)):
            backend = Backend.REFERENCE if offset is None else backend_of(block)
            members.setdefault((backend, tensors[index].device), []).append(index)
        self._readers: list[tuple[NDArray[np.int64], Reader]] = [
            (np.array(indices), reader(backend, device, [blocks[index] for index in indices], statistics))
            for (backend, device), indices in members.items()
        ]

    def run(self, tensors: Sequence[Tensor]) -> PendingFingerprints:
        """Queue one pass over the parts, whose tensors are `tensors` now, in order.

        CUDA tensors are read on the current stream, without waiting for it; CPU tensors before this returns.

        Raises ValueError if a tensor's shape, strides, dtype or device isn't what the table was made for, or if it has no
        memory now.
        """
        # By columns: a model has tens of thousands of tensors, and an engine as many parts of a few hundred.
        distinct, number = _distinct(tensors)
        kinds = np.array([self._numbers.get(_kind(tensor), -1) for tensor in distinct], np.int64)
        if not np.array_equal(kinds[number], self._kinds):
            raise ValueError(self._misfit(tensors))
        pointers = np.fromiter(map(Tensor.data_ptr, distinct), np.int64, len(distinct))
        queued = self.queue(tensors, pointers[number])
        return PendingFingerprints(self.places, queued, self._statistics)

    def queue(self, tensors: Sequence[Tensor], pointers: NDArray[np.int64]) -> Queued:
        """The same for a caller who knows that the table was made for such `tensors`; int64, where each begins.

        Raises ValueError for a tensor without memory.
        """
        if len(freed := self._filled[pointers[self._filled] == 0]):
            raise ValueError(
                f"tensor {freed[0]} has no memory of its own to fingerprint: it was freed, or wraps others"
            )
        addresses = pointers + self._offsets
        queued = []
        for indices, read in self._readers:
            mine = tensors if len(indices) == len(tensors) else [tensors[index] for index in indices.tolist()]
            queued.append((indices, read(addresses[indices], mine)))
        return queued

    def _misfit(self, tensors: Sequence[Tensor]) -> str:
        if len(tensors) != len(self._kinds):
            return f"{len(tensors)} tensors for a table of {len(self._kinds)} parts"
        known = list(self._numbers)
        both = ((_kind(tensor), known[number]) for tensor, number in zip(tensors, self._kinds, strict=True))
        index, now, made = next((index, a, b) for index, (a, b) in enumerate(both) if a != b)
        return f"tensor {index} is now {_said(*now)}; the table was made for {_said(*made)}"


def _said(
    shape: torch.Size, dtype: torch.dtype, device: torch.device, strides: tuple[int, ...], negated: bool
) -> str:
    return f"{shape} {dtype} on {device} with strides {strides}{', negated by a view' if negated else ''}"


def _offset(tensor: Tensor, block: Block) -> int | None:
    """Bytes from the tensor's address to the block's; None if the block is a copy, not a view of the tensor."""
    if block.view.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr():
        return None
    return block.view.data_ptr() - tensor.data_ptr()


def queue_alike(tensors: Sequence[Tensor], statistics: bool) -> tuple[FingerprintTable, Queued]:
    """Queue one pass over whole tensors, by a table that is kept for tensors of the same kinds in the same order.

    Raises TypeError and ValueError as `fingerprint` does, and RuntimeError for what has no address; nothing is queued then.
    """
    pointers = list(map(Tensor.data_ptr, tensors))
    kept = _kept(tuple(map(_lies, tensors, pointers)), statistics)
    if not kept:
        kept.append(FingerprintTable(list(map(Part, tensors)), statistics=statistics))
    return kept[0], kept[0].queue(tensors, np.array(pointers, np.int64))


def _lies(tensor: Tensor, pointer: int) -> object:
    """What a table depends on."""
    return kind_of(tensor), tensor.device, pointer % ALIGNMENT


@lru_cache(maxsize=256)  # the buckets of a version, for the next one: some 100 kB each
def _kept(kinds: tuple[object, ...], statistics: bool) -> list[FingerprintTable]:  # noqa: ARG001 (the cache's key)
    """Where the table for `kinds` is kept, once there is one: it takes tensors to make it."""
    return []
