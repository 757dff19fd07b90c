"""Tensors of a stream: each is read as it passes, and none is kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.alike import ALIGNMENT
from bridge_plugins.fingerprint.backend import Backend, backend_of
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.fingerprint.flat import FlatTable, Slice, flat_table
from bridge_plugins.fingerprint.part import Block, Part, resolve
from bridge_plugins.fingerprint.pending import PendingFingerprints, Place
from bridge_plugins.fingerprint.readers import Result, reader
from bridge_plugins.fingerprint.table import FingerprintTable, queue_alike
from bridge_plugins.fingerprint.value import Fingerprint

if TYPE_CHECKING:
    from bridge_plugins.fingerprint.cpu.stream import HostStream
    from bridge_plugins.fingerprint.cuda.stream import DeviceStream


class FingerprintStream:
    """Fingerprints of tensors that come one by one and may be freed or overwritten once they were added.

    A CUDA tensor costs one launch on the current stream and no wait; work queued there afterwards, a copy or
    a free, comes after it. A CPU tensor is read at once.

    Args:
        statistics: compute them in the same pass.
    """

    def __init__(self, *, statistics: bool = True) -> None:
        self._statistics = statistics
        self._devices: dict[torch.device, DeviceStream | HostStream] = {}
        self._clear()

    def _clear(self) -> None:
        self._places: list[Place] = []
        # Of each tensor: the stream that reads it, or its numbers.
        self._sources: list[DeviceStream | HostStream | Result] = []

    def add(self, tensor: Tensor, *, at: Box | None = None, as_dtype: torch.dtype | None = None) -> None:
        """Read a tensor, or a block of it, at its place; arguments and errors as of `fingerprint`."""
        if at is None and as_dtype is None:
            stream = self._devices.get(tensor.device)
            place = stream.add_whole(tensor) if stream else None
            if stream and place:
                self._sources.append(stream)
                self._places.append(place)
                return
        self._add(resolve(Part(tensor, at, as_dtype)), tensor)

    def add_all(self, tensors: Sequence[Tensor]) -> FingerprintTable:
        """Read whole tensors that are all at hand, in one launch on a GPU; errors as of `queue_alike`.

        What is read: their facts.
        """
        table, queued = queue_alike(tensors, self._statistics)
        sources: list[DeviceStream | HostStream | Result] = [queued[0][1]] * len(tensors) if queued else []
        for indices, result in queued[1:]:
            for index in indices.tolist():
                sources[index] = result
        self._sources += sources
        self._places += table.places
        return table

    def add_flat(self, buffer: Tensor, slices: tuple[Slice, ...]) -> FlatTable:
        """Read all of the tensors `slices` that lie in a buffer of bytes, in one launch on a GPU; errors as of `flat_table`.

        What is read: their facts.
        """
        table = flat_table(slices, buffer.device, buffer.data_ptr() % ALIGNMENT, self._statistics)
        self._sources += [table.run(buffer)] * len(slices)
        self._places += table.places
        return table

    def _add(self, block: Block, tensor: Tensor) -> None:
        backend = backend_of(block)
        if backend is Backend.REFERENCE:
            read = reader(backend, tensor.device, [block], self._statistics)
            self._sources.append(read(np.zeros(1, np.int64), [block.view]))
        else:
            stream = self._device(backend, tensor.device)
            stream.add(block, tensor)
            self._sources.append(stream)
        self._places.append(Place.of(block))

    def _device(self, backend: Backend, device: torch.device) -> DeviceStream | HostStream:
        if device not in self._devices:
            self._devices[device] = _stream(backend, device, self._statistics)
        return self._devices[device]

    def read(self) -> list[Fingerprint]:
        """Wait, and take the fingerprints of all tensors added since the last read to the host, in order."""
        return self.pending().read()

    def pending(self) -> PendingFingerprints:
        """What was added since the last read, not yet waited for."""
        members: dict[DeviceStream | HostStream | Result, list[int]] = {}
        start = 0
        # One run for each bucket, and for each device while it is the same.
        for source, run in groupby(self._sources):
            end = start + sum(1 for _ in run)
            members.setdefault(source, []).extend(range(start, end))
            start = end
        results = [
            (np.array(indices), source if callable(source) else source.read)
            for source, indices in members.items()
        ]
        pending = PendingFingerprints(self._places, results, self._statistics)
        self._clear()
        return pending


def _stream(backend: Backend, device: torch.device, statistics: bool) -> DeviceStream | HostStream:
    if backend is Backend.CPU:
        from bridge_plugins.fingerprint.cpu.stream import HostStream

        return HostStream(statistics)
    from bridge_plugins.fingerprint.cuda.stream import DeviceStream

    return DeviceStream(device, statistics)
