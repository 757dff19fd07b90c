"""How each backend reads a group of blocks: made once, run as often as the contents change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint.backend import Backend
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import Table64, geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block, Part, resolve
from bridge_plugins.fingerprint.reference import fingerprint_reference

Formats = list[tuple[Format, Format]]
"""Of each block: in memory, and taken as."""

Result = Callable[[], Measured]
"""Waits for what was queued and yields it."""

Reader = Callable[[NDArray[np.int64], Sequence[Tensor]], Result]
"""Queues a pass over the blocks, given their addresses and their tensors now."""


def reader(backend: Backend, device: torch.device, blocks: Sequence[Block], statistics: bool) -> Reader:
    """The reader of blocks that all lie on `device` and are taken by `backend`. Keeps no tensor."""
    if backend is Backend.REFERENCE:
        return _reference_reader(blocks, statistics)
    formats = [(block.held, block.taken) for block in blocks]
    return table_reader(backend, device, geometry(blocks), formats, statistics)


def table_reader(
    backend: Backend, device: torch.device, table: Table64, formats: Formats, statistics: bool
) -> Reader:
    """The same of what a table says (see `geometry`), for a backend of kernels; it needs no tensors to read."""
    if backend is Backend.CPU:
        return _cpu_reader(table, formats, statistics)
    return _cuda_reader(device, table, formats, statistics)


def _cpu_reader(table: Table64, formats: Formats, statistics: bool) -> Reader:
    from bridge_plugins.fingerprint.cpu.run import Pass  # llvmlite, which a GPU needs nothing of

    passes = []
    for held, taken in dict.fromkeys(formats):
        members = np.array([index for index, other in enumerate(formats) if other == (held, taken)])
        passes.append((members, Pass(table[members], held, taken, statistics)))

    def read(addresses: NDArray[np.int64], _tensors: Sequence[Tensor]) -> Result:
        out = Measured.empty(len(table))
        for members, one in passes:
            out.put(members, one.run(addresses[members]))
        return lambda: out

    return read


def _cuda_reader(device: torch.device, table: Table64, formats: Formats, statistics: bool) -> Reader:
    from bridge_plugins.fingerprint.cuda.table import DeviceTable

    with torch.cuda.device(device):
        on_device = DeviceTable(table, formats, device, statistics)

    def read(addresses: NDArray[np.int64], _tensors: Sequence[Tensor]) -> Result:
        with torch.cuda.device(device):
            sums = on_device.run(addresses)
            queued = torch.cuda.current_stream().record_event()

        def result() -> Measured:
            queued.synchronize()  # whoever reads may be on another stream
            return sums.read()

        return result

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
