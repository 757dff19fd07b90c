"""How each backend reads a group of blocks: made once, run as often as the contents change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint.backend import Backend
from bridge_plugins.fingerprint.geometry import ADDRESS, geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block, Part, resolve
from bridge_plugins.fingerprint.reference import fingerprint_reference

Result = Callable[[], Measured]
"""Waits for what was queued and yields it."""

Reader = Callable[[NDArray[np.int64], Sequence[Tensor]], Result]
"""Queues a pass over the blocks, given their addresses and their tensors now."""


def reader(backend: Backend, device: torch.device, blocks: Sequence[Block], statistics: bool) -> Reader:
    """The reader of blocks that all lie on `device` and are taken by `backend`. Keeps no tensor."""
    if backend is Backend.CPU:
        return _cpu_reader(blocks, statistics)
    if backend is Backend.CUDA:
        return _cuda_reader(device, blocks, statistics)
    return _reference_reader(blocks, statistics)


def _cpu_reader(blocks: Sequence[Block], statistics: bool) -> Reader:
    from bridge_plugins.fingerprint.cpu.run import measure  # numba takes a while to import

    table = geometry(blocks)
    formats = [(block.held, block.taken) for block in blocks]
    groups = [
        (np.array([index for index, other in enumerate(formats) if other == pair]), pair)
        for pair in dict.fromkeys(formats)
    ]

    def read(addresses: NDArray[np.int64], _tensors: Sequence[Tensor]) -> Result:
        now = table.copy()
        now[:, ADDRESS] = addresses
        out = Measured.empty(len(now))
        for members, (held, taken) in groups:
            out.put(members, measure(now[members], held, taken, statistics=statistics))
        return lambda: out

    return read


def _cuda_reader(device: torch.device, blocks: Sequence[Block], statistics: bool) -> Reader:
    from bridge_plugins.fingerprint.cuda.table import DeviceTable

    with torch.cuda.device(device):
        table = DeviceTable(
            geometry(blocks), [(block.held, block.taken) for block in blocks], device, statistics
        )

    def read(addresses: NDArray[np.int64], _tensors: Sequence[Tensor]) -> Result:
        with torch.cuda.device(device):
            return table.run(addresses).read

    return read


def _reference_reader(blocks: Sequence[Block], statistics: bool) -> Reader:
    boxes = [(block.box, block.held, block.taken) for block in blocks]

    def read(_addresses: NDArray[np.int64], tensors: Sequence[Tensor]) -> Result:
        out = Measured.empty(len(boxes))
        for index, (tensor, (box, held, taken)) in enumerate(zip(tensors, boxes, strict=True)):
            # Where a block is no view of its tensor, the copy must be made anew.
            view = resolve(Part(tensor, box)).view
            out.set(index, fingerprint_reference(view, box, held, taken, statistics))
        return lambda: out

    return read
