"""Where tiles write on the device, and how their sums come to the host: once, and in one piece."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.kernels import add_tiles
from bridge_plugins.fingerprint.measured import Measured


@dataclass(frozen=True, slots=True, eq=False)
class TileOutputs:
    """What each of n tiles found: lanes int64 n × 2, floats float64 n × 2, counts int32 n × 4."""

    lanes: Tensor
    floats: Tensor
    counts: Tensor

    @staticmethod
    def empty(tiles: int, device: torch.device) -> TileOutputs:
        """Uninitialised: each tile writes all of its own."""
        return TileOutputs(
            torch.empty((tiles, 2), dtype=torch.int64, device=device),
            torch.empty((tiles, 2), dtype=torch.float64, device=device),
            torch.empty((tiles, 4), dtype=torch.int32, device=device),
        )

    def keep_for_current_stream(self) -> None:
        """Tell torch's allocator that the current stream still uses this memory, whoever lets go of it."""
        if self.lanes.device.type == "cuda":
            for tensor in (self.lanes, self.floats, self.counts):
                tensor.record_stream(torch.cuda.current_stream(self.lanes.device))

    def add_up(self, ranges: Tensor, statistics: bool) -> BlockOutputs:
        """Queue the sums over each block's tiles. ranges: int64, blocks × 2, on the device."""
        blocks = len(ranges)
        packed = torch.empty((8, blocks), dtype=torch.int64, device=self.lanes.device)
        out = BlockOutputs(packed, statistics)
        if blocks:
            add_tiles[(blocks,)](
                *(ranges, self.lanes, self.floats, self.counts, packed[:2], packed[2:4].view(torch.float64)),
                *(packed[4:], statistics, 128),
            )
        return out


@dataclass(frozen=True, slots=True, eq=False)
class BlockOutputs:
    """Sums for n blocks, on the device: int64 8 × n, in which lie lanes n × 2, floats n × 2, counts n × 4."""

    packed: Tensor
    statistics: bool

    def read(self) -> Measured:
        """Wait for the device and take the numbers to the host."""
        packed = self.packed.cpu().numpy()
        n = packed.shape[1]
        floats = packed[2:4].view(np.float64).reshape(n, 2)
        return Measured(
            packed[:2].view(np.uint64).reshape(n, 2), floats[:, 0], floats[:, 1], packed[4:].reshape(n, 4)
        )
