"""Tensors at rest: how to read many blocks is worked out once, and kept from version to version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint.backend import Backend, backend_of
from bridge_plugins.fingerprint.part import Block, Part, resolve
from bridge_plugins.fingerprint.pending import PendingFingerprints, Place
from bridge_plugins.fingerprint.readers import Reader, reader


@dataclass(frozen=True, slots=True, eq=False)
class _Slot:
    """What a table remembers of a part's tensor; not the tensor."""

    shape: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int | None  # bytes from the tensor's address to the block's; None if the block is no view of it

    def fits(self, tensor: Tensor) -> bool:
        """Whether the tensor lies as the one did that the table was made for."""
        return (
            tensor.shape == self.shape
            and tensor.stride() == self.stride
            and tensor.dtype == self.dtype
            and tensor.device == self.device
        )


class FingerprintTable:
    """Blocks of tensors to be read together, as often as their contents change.

    Args:
        parts: what to read. Their tensors aren't kept.
        statistics: compute them in the same pass.

    Raises TypeError and ValueError as `fingerprint` does.
    """

    def __init__(self, parts: Sequence[Part], *, statistics: bool = True) -> None:
        blocks = [resolve(part) for part in parts]
        self._statistics = statistics
        self._slots = [_slot(part, block) for part, block in zip(parts, blocks, strict=True)]
        self._places = [Place(block.box.place, block.taken.name) for block in blocks]
        members: dict[tuple[Backend, torch.device], list[int]] = {}
        for index, (slot, block) in enumerate(zip(self._slots, blocks, strict=True)):
            backend = Backend.REFERENCE if slot.offset is None else backend_of(block)
            members.setdefault((backend, slot.device), []).append(index)
        self._readers: list[tuple[NDArray[np.int64], Reader]] = [
            (np.array(indices), reader(backend, device, [blocks[index] for index in indices], statistics))
            for (backend, device), indices in members.items()
        ]

    def run(self, tensors: Sequence[Tensor]) -> PendingFingerprints:
        """Queue one pass over the parts, whose tensors are `tensors` now, in order.

        CUDA tensors are read on the current stream, without waiting for it; CPU tensors before this returns.

        Raises ValueError if a tensor's shape, strides, dtype or device isn't what the table was made for.
        """
        addresses = np.empty(len(self._slots), np.int64)
        for index, (slot, tensor) in enumerate(zip(self._slots, tensors, strict=True)):
            if not slot.fits(tensor):
                raise ValueError(f"tensor {index} is {_told(tensor)}; the table was made for {_told(slot)}")
            addresses[index] = tensor.data_ptr() + (slot.offset or 0)
        queued = [
            (indices, read(addresses[indices], [tensors[index] for index in indices]))
            for indices, read in self._readers
        ]
        return PendingFingerprints(self._places, queued, self._statistics)


def _told(of: Tensor | _Slot) -> str:
    stride = of.stride if isinstance(of, _Slot) else of.stride()
    return f"{tuple(of.shape)} {of.dtype} on {of.device} with strides {stride}"


def _slot(part: Part, block: Block) -> _Slot:
    tensor = part.tensor
    is_view = block.view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr()
    offset = block.view.data_ptr() - tensor.data_ptr() if is_view else None
    return _Slot(tensor.shape, tensor.stride(), tensor.dtype, tensor.device, offset)
