"""Tensors of a stream: one launch each, on the current stream, before the tensor is handed on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.device import current_stream, on_device, on_stream, to_device, wait
from bridge_plugins.fingerprint.cuda.outputs import RECORD, Sums, empty_records
from bridge_plugins.fingerprint.cuda.plan import Plan, plan_for, plan_key
from bridge_plugins.fingerprint.cuda.table import DeviceTable
from bridge_plugins.fingerprint.geometry import ADDRESS, geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block
from bridge_plugins.fingerprint.pending import Place

_PAGE: Final = 1 << 19
"""Tiles whose records are kept until they are added up: 25 MB. To add up costs the host as much as 30 launches."""


@dataclass(slots=True, eq=False)
class _Page:
    """Room for records of tiles, and where those of each block end. One page for each stream in turn."""

    records: Tensor
    address: int
    capacity: int
    stream: int
    used: int = 0
    ends: list[int] = field(default_factory=list)


class DeviceStream:
    """Reads tensors of one device as they come. Holds none of them; what was found stays on the device.

    Args:
        device: where the tensors lie.
        statistics: whether to compute them too.
    """

    def __init__(self, device: torch.device, statistics: bool) -> None:
        self._device = device
        self._statistics = statistics
        self._stream = current_stream(device)
        self._plans: dict[object, Plan] = {}
        self._page: _Page | None = None
        # What was added up, in the order of the blocks.
        self._sums: list[Sums] = []

    def add_whole(self, tensor: Tensor) -> Place | None:
        """Queue the pass over a whole tensor of a kind seen before; None, and nothing queued, for others."""
        try:
            address = tensor.data_ptr()
            plan = self._plans.get(plan_key(tensor, address, self._stream()))
        except RuntimeError:  # a sparse tensor, say: it is refused with its reason elsewhere
            return None
        if plan is None or not address:  # without memory of its own it is refused elsewhere
            return None
        self._queue(plan, address)
        return plan.place

    def add(self, block: Block, tensor: Tensor) -> None:
        """Queue the pass over a block of a tensor."""
        with on_device(self._device):
            stream, address = self._stream() or 0, block.view.data_ptr()
            plan = plan_for(block, self._device, stream, self._statistics)
            if plan is None:
                self._close_page()
                table = geometry([block])
                one = DeviceTable(table, [(block.held, block.taken)], self._device, self._statistics)
                self._sums.append(one.run(table[:, ADDRESS]))
                return
            if block.whole and address == tensor.data_ptr():  # not a copy of the tensor
                self._plans[plan_key(tensor, address, stream)] = plan
            self._queue(plan, address)

    def _queue(self, plan: Plan, address: int) -> None:
        page = self._page
        if page is None or page.used + plan.tiles > page.capacity or page.stream != plan.stream:
            page = self._open_page(plan)
        plan.launch(address, page.address + RECORD * page.used)
        page.used += plan.tiles
        page.ends.append(page.used)

    def _open_page(self, plan: Plan) -> _Page:
        self._close_page()
        capacity = max(_PAGE, plan.tiles)
        records = empty_records(capacity, self._device)
        self._page = _Page(records, records.data_ptr(), capacity, plan.stream)
        return self._page

    def _close_page(self) -> None:
        """Queue the sums of the open page, on the stream that fills it, and let go of the page."""
        page, self._page = self._page, None
        if page is None:
            return
        edges = np.array([0, *page.ends])
        ranges = torch.from_numpy(np.stack([edges[:-1], edges[1:]], axis=1))
        most = int(np.diff(edges).max())
        with on_stream(self._device, page.stream):
            self._sums.append(Sums.of(page.records, to_device(ranges, self._device), most, self._statistics))

    def read(self) -> Measured:
        """Wait for the device and take the numbers of all blocks since the last read to the host, in order."""
        with on_device(self._device):
            self._close_page()
            wait(self._device)
            sums, self._sums = self._sums, []
            return Sums.joined(sums).read() if sums else Measured.empty(0)
