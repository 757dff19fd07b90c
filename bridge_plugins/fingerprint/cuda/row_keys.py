"""A table of row keys on each device: reading it costs a kernel less than computing them for every tile."""

from __future__ import annotations

from functools import cache
from typing import Final

import torch
from torch import Tensor

from bridge_plugins.fingerprint.cuda.device import wait
from bridge_plugins.fingerprint.reference import row_keys

_SMALLEST: Final = 1 << 16
_LARGEST: Final = 1 << 20  # 8 MB: stays in the second-level cache beside the weights that stream through


def row_key_table(device: torch.device, rows: int) -> Tensor | None:
    """Both lanes' keys of at least `rows` rows, lane 0 in the low halves, int64; None if that is too many."""
    if rows > _LARGEST:
        return None
    return _table(device, max(_SMALLEST, 1 << (rows - 1).bit_length()))


@cache  # and never freed: a launch that is under way on some stream may read it
def _table(device: torch.device, rows: int) -> Tensor:
    index = torch.arange(rows, device=device)
    table = row_keys(0, index) | (row_keys(1, index) << 32)
    wait(device)  # once: whichever stream uses it next, it is there
    return table
