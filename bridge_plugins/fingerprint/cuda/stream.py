"""Tensors of a stream: one launch each, on the current stream, before the tensor is handed on."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.device import current_stream, is_current, on_stream, to_device, wait
from bridge_plugins.fingerprint.cuda.launch import Launch, stream_launch
from bridge_plugins.fingerprint.cuda.outputs import BlockOutputs, TileOutputs
from bridge_plugins.fingerprint.cuda.row_keys import row_key_table
from bridge_plugins.fingerprint.cuda.table import ALIGNMENT, DeviceTable
from bridge_plugins.fingerprint.cuda.variant import variants
from bridge_plugins.fingerprint.geometry import ADDRESS, COLS, ROW_BYTES, ROWS, geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block
from bridge_plugins.fingerprint.pending import Place

_PAGE: Final = 1 << 16
"""Tiles whose outputs are kept until they are added up: 3 MB."""


@dataclass(slots=True, eq=False)
class _Page:
    """Room for tiles' outputs, and which tiles belong to each block. One page for each stream in turn."""

    outputs: TileOutputs
    arguments: tuple[Any, ...]  # as the kernel takes the outputs
    capacity: int
    stream: int
    used: int = 0
    ranges: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How to launch for tensors of one shape; the address goes before `geometry`."""

    launch: Launch
    tiles: int
    geometry: tuple[int, ...]
    row_keys: Any
    place: Place


class DeviceStream:
    """Reads tensors of one device as they come. Holds none of them; what was found stays on the device.

    Args:
        device: where the tensors lie.
        statistics: whether to compute them too.
    """

    def __init__(self, device: torch.device, statistics: bool) -> None:
        self._device = device
        self._statistics = statistics
        self._plans: dict[object, _Plan] = {}
        self._page: _Page | None = None
        # What was added up, in the order of the blocks.
        self._sums: list[BlockOutputs] = []

    def add_whole(self, tensor: Tensor) -> Place | None:
        """Queue the pass over a whole tensor of a shape seen before; None, and nothing queued, for others."""
        plan = self._plans.get((tensor.shape, tensor.stride(), tensor.dtype))
        address = tensor.data_ptr()
        if plan is None or address % ALIGNMENT or not is_current(self._device):
            return None
        self._queue(plan, address)
        return plan.place

    def add(self, block: Block, tensor: Tensor) -> None:
        """Queue the pass over a block of a tensor."""
        with self._current():
            plan = _plan(block, self._device, self._statistics)
            address = block.view.data_ptr()
            if plan is not None and address % ALIGNMENT == 0:
                if block.whole:
                    self._plans[tensor.shape, tensor.stride(), tensor.dtype] = plan
                self._queue(plan, address)
                return
            self._close_page()
            table = geometry([block])
            one = DeviceTable(table, [(block.held, block.taken)], self._device, self._statistics)
            self._sums.append(one.run(table[:, ADDRESS]))

    def _current(self) -> AbstractContextManager[None]:
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    def _queue(self, plan: _Plan, address: int) -> None:
        stream = current_stream(self._device)
        page = self._page
        if page is None or page.used + plan.tiles > page.capacity or page.stream != stream:
            page = self._open_page(plan.tiles, stream)
        start = page.used
        page.used = end = start + plan.tiles
        plan.launch(stream, plan.tiles, address, *plan.geometry, start, plan.row_keys, *page.arguments)
        page.ranges.append((start, end))

    def _open_page(self, tiles: int, stream: int) -> _Page:
        self._close_page()
        capacity = max(_PAGE, tiles)
        outputs = TileOutputs.empty(capacity, self._device)
        arguments = tuple(_argument(t) for t in (outputs.lanes, outputs.floats, outputs.counts))
        self._page = _Page(outputs, arguments, capacity, stream)
        return self._page

    def _close_page(self) -> None:
        """Queue the sums of the open page, on the stream that fills it, and let go of the page."""
        page, self._page = self._page, None
        if page is None:
            return
        with on_stream(self._device, page.stream):
            ranges = torch.tensor(page.ranges, dtype=torch.int64)
            self._sums.append(page.outputs.add_up(to_device(ranges, self._device), self._statistics))
            page.outputs.keep_for_current_stream()

    def read(self) -> Measured:
        """Wait for the device and take the numbers of all blocks so far to the host, in order."""
        with self._current():
            self._close_page()
            wait(self._device)
            return Measured.joined([sums.read() for sums in self._sums])


def _plan(block: Block, device: torch.device, statistics: bool) -> _Plan | None:
    """How to launch for a block, or None if it takes a table: an odd shape or place, or nothing in it."""
    table = geometry([block])
    table[:, ADDRESS] = 0  # whether that is aligned is asked for each tensor
    chosen = variants(table, block.held, block.taken, statistics)
    box = block.box
    keys = row_key_table(device, box.offset.rows + box.size.rows * box.stride.rows)
    if not chosen or keys is None:
        return None
    (variant,) = chosen
    if not variant.by_words:
        return None
    words = int(table[0, COLS]) * block.held.bytes // 4
    across = -(-words // variant.shape.cols)
    first_word = box.offset.cols * block.held.bytes // 4
    return _Plan(
        stream_launch(device, variant, block.taken, statistics),
        -(-box.size.rows // variant.shape.rows) * across,
        (
            *(int(table[0, ROW_BYTES]), int(table[0, ROWS]), words),
            *(box.offset.rows, box.stride.rows, first_word, across, variant.shape.rows),
        ),
        _argument(keys),
        Place.of(block),
    )


def _argument(tensor: Tensor) -> Any:
    """A tensor as the launcher wants it: its address, but the tensor itself in Triton's interpreter."""
    return tensor.data_ptr() if tensor.device.type == "cuda" else tensor
