# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""What is launched: tiles of a table, tiles of one tensor, and the sum over each block's tiles.

A tile writes what it found to a record of its own, and the last kernel adds a block's records in order: no
atomic, nothing to clear, and a sum of squares that repeats bit for bit.
"""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.elements import elements_tile
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.record import SIZE
from bridge_plugins.fingerprint.cuda.words import words_tile


@kernel("tile_rows")
def table_words(
    tiles: tl.tensor,  # int64, n × 3: block, first row, first word
    blocks: tl.tensor,  # int64, see `geometry`
    addresses: tl.tensor,  # int64: of the blocks; what `blocks` says of them may be old
    key_table: tl.tensor,
    records: tl.tensor,  # int64, n × SIZE
    tile_rows: tl.tensor,
    FORMAT: tl.constexpr,
    WALK: tl.constexpr,
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
) -> None:
    """One program per tile."""
    tile = tl.program_id(0).to(tl.int64)
    index, row, word = tl.load(tiles + 3 * tile), tl.load(tiles + 3 * tile + 1), tl.load(tiles + 3 * tile + 2)
    block = blocks + 9 * index
    row_bytes, col_bytes, row_stride = tl.load(block + 1), tl.load(block + 2), tl.load(block + 6)
    col = word * 32 // FORMAT.bits
    words_tile(
        tl.load(addresses + index) + row * row_bytes + _along(word, col, col_bytes, WALK),
        row_bytes,
        col_bytes,
        tl.load(block + 3) - row,
        tl.load(block + 4) - col,
        tile_rows,
        tl.load(block + 5) + row * row_stride,
        row_stride,
        tl.load(block + 7) * FORMAT.bits // 32 + word,
        key_table,
        records + SIZE * tile,
        FORMAT,
        WALK,
        STATISTICS,
        KEY_TABLE,
    )


# The compiled kernel is kept and launched directly: it must not depend on the first tensor's numbers.
@kernel(
    *("address", "records", "row_bytes", "col_bytes", "rows", "cols", "first_row", "row_stride"),
    *("first_word", "tile_rows", "tiles_across", "key_table"),
)
def stream_words(
    address: tl.tensor,  # int64, as all of them
    records: tl.tensor,  # address of the first tile's record
    row_bytes: tl.tensor,
    col_bytes: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,
    first_row: tl.tensor,  # the block's place in the whole tensor
    row_stride: tl.tensor,
    first_word: tl.tensor,
    tile_rows: tl.tensor,
    tiles_across: tl.tensor,
    key_table: tl.tensor,  # address
    FORMAT: tl.constexpr,
    WALK: tl.constexpr,
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
) -> None:
    """One program per tile of one block, whose geometry comes with the launch."""
    tile = tl.program_id(0).to(tl.int64)
    if WALK.flat:
        row, word = tile // tiles_across, tile % tiles_across * tile_rows * WALK.cols
    else:
        row, word = tile // tiles_across * tile_rows, tile % tiles_across * WALK.cols
    col = word * 32 // FORMAT.bits
    words_tile(
        address + row * row_bytes + _along(word, col, col_bytes, WALK),
        row_bytes,
        col_bytes,
        rows - row,
        cols - col,
        tile_rows,
        first_row + row * row_stride,
        row_stride,
        first_word + word,
        key_table.to(tl.pointer_type(tl.int64)),
        records.to(tl.pointer_type(tl.int64)) + SIZE * tile,
        FORMAT,
        WALK,
        STATISTICS,
        KEY_TABLE,
    )


@kernel()
def _along(word: tl.tensor, col: tl.tensor, col_bytes: tl.tensor, WALK: tl.constexpr) -> tl.tensor:
    """Bytes from the start of a row to a word of it, which begins with element `col`."""
    return col * col_bytes if WALK.across else word * 4


@kernel()
def table_elements(
    tiles: tl.tensor,  # int64, n × 3: block, first row, first column
    blocks: tl.tensor,
    addresses: tl.tensor,
    records: tl.tensor,
    HELD: tl.constexpr,
    FORMAT: tl.constexpr,
    WALK: tl.constexpr,
    TILE_ROWS: tl.constexpr,
    STATISTICS: tl.constexpr,
) -> None:
    """One program per tile of TILE_ROWS rows."""
    tile = tl.program_id(0).to(tl.int64)
    index, row, col = tl.load(tiles + 3 * tile), tl.load(tiles + 3 * tile + 1), tl.load(tiles + 3 * tile + 2)
    block = blocks + 9 * index
    row_bytes, col_bytes = tl.load(block + 1), tl.load(block + 2)
    row_stride, col_stride = tl.load(block + 6), tl.load(block + 8)
    elements_tile(
        tl.load(addresses + index) + row * row_bytes + col * col_bytes,
        row_bytes,
        col_bytes,
        tl.minimum(tl.load(block + 3) - row, TILE_ROWS).to(tl.int32),
        tl.load(block + 4) - col,
        tl.load(block + 5) + row * row_stride,
        row_stride,
        tl.load(block + 7) + col * col_stride,
        col_stride,
        records + SIZE * tile,
        HELD,
        FORMAT,
        WALK,
        STATISTICS,
    )


@kernel()
def add_tiles(
    ranges: tl.tensor,  # int64, blocks × 2: first tile, one past the last
    records: tl.tensor,  # of tiles
    sums: tl.tensor,  # int64, blocks × 8: lanes, absmax and sum of squares as float64, counts
    STATISTICS: tl.constexpr,
    N: tl.constexpr,
) -> None:
    """One program per block: its tiles' records, added N at a time."""
    block = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ranges + 2 * block), tl.load(ranges + 2 * block + 1)
    floats, counts = records.to(tl.pointer_type(tl.float64)), records.to(tl.pointer_type(tl.int32))
    lane_0 = tl.zeros((N,), tl.int64)
    lane_1 = tl.zeros((N,), tl.int64)
    absmax = tl.zeros((N,), tl.float64)
    squares = tl.zeros((N,), tl.float64)
    zeros = tl.zeros((N,), tl.int64)
    nans = tl.zeros((N,), tl.int64)
    infs = tl.zeros((N,), tl.int64)
    lossy = tl.zeros((N,), tl.int64)
    for start in range(first, end, N):
        at = start + tl.arange(0, N)
        mask = at < end
        lane_0 += tl.load(records + SIZE * at, mask=mask, other=0)
        lane_1 += tl.load(records + SIZE * at + 1, mask=mask, other=0)
        lossy += tl.load(counts + 2 * SIZE * at + 11, mask=mask, other=0)
        if STATISTICS:
            absmax = tl.maximum(absmax, tl.load(floats + SIZE * at + 2, mask=mask, other=0.0))
            squares += tl.load(floats + SIZE * at + 3, mask=mask, other=0.0)
            zeros += tl.load(counts + 2 * SIZE * at + 8, mask=mask, other=0)
            nans += tl.load(counts + 2 * SIZE * at + 9, mask=mask, other=0)
            infs += tl.load(counts + 2 * SIZE * at + 10, mask=mask, other=0)
    out = sums + 8 * block
    tl.store(out, tl.sum(lane_0, 0))
    tl.store(out + 1, tl.sum(lane_1, 0))
    tl.store(out.to(tl.pointer_type(tl.float64)) + 2, tl.max(absmax, 0))
    tl.store(out.to(tl.pointer_type(tl.float64)) + 3, tl.sum(squares, 0))
    tl.store(out + 4, tl.sum(zeros, 0))
    tl.store(out + 5, tl.sum(nans, 0))
    tl.store(out + 6, tl.sum(infs, 0))
    tl.store(out + 7, tl.sum(lossy, 0))
