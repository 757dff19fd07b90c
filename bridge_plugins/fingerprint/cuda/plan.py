"""How tensors of one kind are launched on one stream: worked out once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bridge_plugins.fingerprint.alike import ALIGNMENT, kind_of
from bridge_plugins.fingerprint.cuda.launch import Launch, Numbers, stream_kernel
from bridge_plugins.fingerprint.cuda.row_keys import row_key_table
from bridge_plugins.fingerprint.cuda.variant import variants
from bridge_plugins.fingerprint.geometry import geometry
from bridge_plugins.fingerprint.part import Block
from bridge_plugins.fingerprint.pending import Place


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How to launch for tensors of one shape on one stream."""

    launch: Launch
    tiles: int
    stream: int
    place: Place


def plan_key(tensor: Tensor, address: int, stream: int | None) -> object:
    """What a plan depends on."""
    return kind_of(tensor), address % ALIGNMENT, stream


def plan_for(block: Block, device: torch.device, stream: int, statistics: bool) -> Plan | None:
    """How to launch for a block; None if that takes a table: an odd place, or nothing in it."""
    if torch.version.hip:  # launches through CUDA's driver
        return None
    chosen = variants(geometry([block]), block.held, block.taken, statistics)
    if not chosen:
        return None
    (variant,) = chosen
    if not variant.walk.words:
        return None
    box, width, steps = block.box, block.held.bytes, block.view.stride()
    tile_rows, tile_words = variant.tile
    across = -(-box.size.cols * width // (4 * tile_words))
    keys = row_key_table(device, box.offset.rows + box.size.rows * box.stride.rows)
    numbers = Numbers(
        row_bytes=steps[0] * width,
        col_bytes=steps[1] * width,
        rows=box.size.rows,
        cols=box.size.cols,
        first_row=box.offset.rows,
        row_stride=box.stride.rows,
        first_word=box.offset.cols * width // 4,
        tile_rows=variant.rows,
        tiles_across=across,
        key_table=keys.data_ptr() if keys is not None else 0,
    )
    tiles = -(-box.size.rows // tile_rows) * across
    kernel = stream_kernel(device, variant.walk, block.taken, statistics, keys is not None)
    return Plan(kernel.prepare(stream, tiles, numbers), tiles, stream, Place.of(block))
