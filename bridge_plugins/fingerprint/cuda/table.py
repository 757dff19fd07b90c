"""Weights at rest: many blocks in one launch for each element format and tile shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bridge_plugins.fingerprint.alike import ALIGNMENT
from bridge_plugins.fingerprint.cuda.device import has_ptx, to_device
from bridge_plugins.fingerprint.cuda.kernels import table_elements, table_words
from bridge_plugins.fingerprint.cuda.outputs import Sums, empty_records
from bridge_plugins.fingerprint.cuda.reading import reading
from bridge_plugins.fingerprint.cuda.row_keys import row_key_table
from bridge_plugins.fingerprint.cuda.variant import Variant, variants
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.geometry import ADDRESS, COLS, ROW_OFFSET, ROW_STRIDE, ROWS, Table64


@dataclass(frozen=True, slots=True, eq=False)
class Launch:
    """One kernel over some tiles: int64, n × 3, on the device: block, first row, first word or element."""

    variant: Variant
    held: Format
    taken: Format
    first_tile: int
    tiles: Tensor


class DeviceTable:
    """A table of blocks of one device, made once; `run` reads them all, wherever they lie by then.

    Args:
        table: see `geometry`.
        formats: of each block: in memory, and taken as.
        device: where the blocks lie.
        statistics: whether to compute them too.
    """

    def __init__(
        self, table: Table64, formats: list[tuple[Format, Format]], device: torch.device, statistics: bool
    ) -> None:
        self._device = device
        self._statistics = statistics
        self._addresses = table[:, ADDRESS].copy()
        self._blocks = torch.from_numpy(table).to(device)
        self._launches: list[Launch] = []
        ranges = np.zeros((len(table), 2), np.int64)
        tiles_so_far = self._most = 0
        for pair in dict.fromkeys(formats):
            members = np.array([index for index, other in enumerate(formats) if other == pair])
            for variant, chosen in variants(table[members], *pair, statistics).items():
                tiles, counts = cut(table, members[chosen], variant, pair[0])
                ends = tiles_so_far + np.cumsum(counts)
                ranges[members[chosen]] = np.stack([ends - counts, ends], axis=1)
                on_device = torch.from_numpy(tiles).to(device)
                self._launches.append(Launch(variant, *pair, tiles_so_far, on_device))
                tiles_so_far += len(tiles)
                self._most = max(self._most, int(counts.max()))
        self._ranges = torch.from_numpy(ranges).to(device)
        self._tiles = tiles_so_far
        rows = table[:, ROW_OFFSET] + table[:, ROWS] * table[:, ROW_STRIDE]
        self._rows = int(rows.max()) if len(rows) else 0

    def run(self, addresses: NDArray[np.int64]) -> Sums:
        """Queue the pass on the current stream. `addresses`: of the blocks now, in bytes, int64.

        Raises ValueError if a block lies less aligned than when the table was made.
        """
        if ((addresses - self._addresses) % ALIGNMENT).any():
            raise ValueError(f"a tensor moved by no multiple of {ALIGNMENT} bytes; make the table anew")
        on_device = to_device(torch.tensor(addresses), self._device)
        records = empty_records(self._tiles, self._device)
        for launch in self._launches:
            own = records[launch.first_tile : launch.first_tile + len(launch.tiles)]
            self._queue(launch, on_device, own)
        return Sums.of(records, self._ranges, self._most, self._statistics)

    def _queue(self, launch: Launch, addresses: Tensor, records: Tensor) -> None:
        walk, rows = launch.variant.walk, launch.variant.rows
        how = {
            "FORMAT": reading(launch.taken, has_ptx(self._device)),
            "WALK": walk,
            "STATISTICS": self._statistics,
            "num_warps": walk.warps,
        }
        if walk.words:
            keys = row_key_table(self._device, self._rows)
            table = self._blocks if keys is None else keys
            table_words[(len(launch.tiles),)](
                *(launch.tiles, self._blocks, addresses, table, records, rows),
                **how,
                KEY_TABLE=keys is not None,
            )
        else:
            table_elements[(len(launch.tiles),)](
                *(launch.tiles, self._blocks, addresses, records),
                **how,
                HELD=launch.held.bits,
                TILE_ROWS=rows,
            )


def cut(
    table: Table64, members: NDArray[np.int64], variant: Variant, held: Format
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The tiles of the blocks `members`, block by block and row by row, and how many each block has."""
    rows, cols = variant.tile
    across = -(-table[members, COLS] * held.bytes // 4) if variant.walk.words else table[members, COLS]
    cols_of_tiles = -(-across // cols)
    counts = -(-table[members, ROWS] // rows) * cols_of_tiles
    which = np.repeat(np.arange(len(members)), counts)
    nth = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    row, col = nth // cols_of_tiles[which] * rows, nth % cols_of_tiles[which] * cols
    return np.stack([members[which], row, col], axis=1), counts
