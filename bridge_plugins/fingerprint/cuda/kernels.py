# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""What is launched: tiles of a table, and tiles of one tensor."""

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
