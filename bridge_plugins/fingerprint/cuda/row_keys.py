"""A table of row keys on each device: reading it costs a kernel less than computing them for every tile."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.device import wait
from bridge_plugins.fingerprint.reference import row_keys

_SMALLEST: Final = 1 << 16
_LARGEST: Final = 1 << 20  # 8 MB: stays in the second-level cache beside the weights that stream through

_tables: dict[torch.device, Tensor] = {}


def row_key_table(device: torch.device, rows: int) -> Tensor | None:
    """Both lanes' keys of at least `rows` rows, lane 0 in the low halves, int64; None if that is too many."""
    if rows > _LARGEST:
        return None
    table = _tables.get(device)
    if table is None or len(table) < rows:
        index = torch.arange(max(_SMALLEST, 1 << (rows - 1).bit_length()), device=device)
        table = _tables[device] = row_keys(0, index) | (row_keys(1, index) << 32)
        wait(device)  # once: whichever stream uses it next, it is there
    return table
