"""Where tiles write on the device, and how their sums come to the host: once, and in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.record import SIZE
from bridge_plugins.fingerprint.cuda.sums import add_tiles
from bridge_plugins.fingerprint.measured import Measured

RECORD: Final = 8 * SIZE.value
"""Bytes that a tile writes."""

_MANY: Final = (
    1024  # tiles of a block that are added at once, if one block has that many; else an eighth of it
)


def empty_records(tiles: int, device: torch.device) -> Tensor:
    """Room for what tiles find, uninitialised: each tile writes all of its own."""
    return torch.empty((tiles, SIZE.value), dtype=torch.int64, device=device)


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Numbers of n blocks, on the device: int64 n × 8, in which lie lanes, two float64, and four counts."""

    numbers: Tensor

    @staticmethod
    def of(records: Tensor, ranges: Tensor, most: int, statistics: bool) -> Sums:
        """Queue the sums over each block's tiles.

        Args:
            records: of tiles.
            ranges: int64, blocks × 2, on the device: a block's first tile, and one past its last.
            most: tiles of the block that has the most.
            statistics: whether the tiles have them.
        """
        numbers = torch.empty((len(ranges), 8), dtype=torch.int64, device=records.device)
        if len(ranges):
            many = most >= _MANY
            add_tiles[(len(ranges),)](
                *(ranges, records, numbers, statistics, _MANY if many else _MANY // 8),
                num_warps=8 if many else 4,
            )
        return Sums(numbers)

    @staticmethod
    def joined(several: Sequence[Sums]) -> Sums:
        """One after the other; at least one."""
        return Sums(torch.cat([sums.numbers for sums in several]))

    def read(self) -> Measured:
        """Wait for the current stream and take the numbers to the host."""
        numbers = self.numbers.cpu().numpy()
        floats = numbers[:, 2:4].view(np.float64)
        return Measured(numbers[:, :2].view(np.uint64), floats[:, 0], floats[:, 1], numbers[:, 4:])
