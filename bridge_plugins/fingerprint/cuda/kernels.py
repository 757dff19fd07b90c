# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""What is launched: tiles of a table, tiles of one tensor, and the sum over each block's tiles.

A tile writes what it found to a place of its own, and the last kernel adds a block's tiles in order: no
atomic, nothing to clear, and a sum of squares that repeats bit for bit.
"""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.elements import elements_tile
from bridge_plugins.fingerprint.cuda.jit import kernel
from bridge_plugins.fingerprint.cuda.words import words_tile


@kernel()
def table_words(
    tiles: tl.tensor,  # int32, n × 4: block, first row, first word, 0
    blocks: tl.tensor,  # int64, see `geometry`
    addresses: tl.tensor,  # int64: of the blocks; what `blocks` says of them may be old
    key_table: tl.tensor,
    tile_rows: tl.tensor,
    lanes: tl.tensor,
    floats: tl.tensor,
    counts: tl.tensor,
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    LIMIT: tl.constexpr,
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
    ALIGNED: tl.constexpr,
    RB: tl.constexpr,
    UNROLL: tl.constexpr,
    BW: tl.constexpr,
) -> None:
    """One program per tile of tile_rows rows × BW words."""
    tile = tl.program_id(0).to(tl.int64)
    index = tl.load(tiles + 4 * tile).to(tl.int64)
    block = blocks + 9 * index
    row, word = tl.load(tiles + 4 * tile + 1), tl.load(tiles + 4 * tile + 2)
    row_bytes = tl.load(block + 1)
    words = (tl.load(block + 4) * (BITS // 8) // 4).to(tl.int32)
    row_words = (row_bytes // 4).to(tl.int32)
    if ALIGNED:
        # 16 bytes at a time; without being told, the compiler loads 4.
        words, row_words = tl.multiple_of(words, 4), tl.multiple_of(row_words, 4)
        word = tl.multiple_of(word, 4)
    address = tl.load(addresses + index) + row * row_bytes + word * 4
    corner = address.to(tl.pointer_type(tl.uint32))
    if ALIGNED:
        corner = tl.multiple_of(corner, 16)
    rows = tl.minimum(tl.load(block + 3) - row, tile_rows).to(tl.int32)
    row_stride = tl.load(block + 6)
    words_tile(
        corner,
        row_words,
        rows,
        words - word,
        tl.load(block + 5) + row * row_stride,
        row_stride,
        tl.load(block + 7) * (BITS // 8) // 4 + word,
        key_table,
        lanes + 2 * tile,
        floats + 2 * tile,
        counts + 4 * tile,
        BITS,
        KIND,
        MANTISSA,
        BIAS,
        LIMIT,
        STATISTICS,
        KEY_TABLE,
        RB,
        UNROLL,
        BW,
    )


# The compiled kernel is kept and launched directly: it must not depend on the first tensor's numbers.
@kernel(
    *("address", "row_bytes", "rows", "words", "first_row", "row_stride", "first_word"),
    *("tiles_across", "tile_rows", "first_tile"),
)
def stream_words(
    address: tl.tensor,  # int64
    row_bytes: tl.tensor,  # int64
    rows: tl.tensor,  # int64
    words: tl.tensor,  # int64: of a row
    first_row: tl.tensor,  # int64: the block's place in the whole tensor
    row_stride: tl.tensor,  # int64
    first_word: tl.tensor,  # int64
    tiles_across: tl.tensor,  # int64
    tile_rows: tl.tensor,  # int64
    first_tile: tl.tensor,  # int64: where this block's outputs begin
    key_table: tl.tensor,
    lanes: tl.tensor,
    floats: tl.tensor,
    counts: tl.tensor,
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    LIMIT: tl.constexpr,
    STATISTICS: tl.constexpr,
    KEY_TABLE: tl.constexpr,
    ALIGNED: tl.constexpr,
    RB: tl.constexpr,
    UNROLL: tl.constexpr,
    BW: tl.constexpr,
) -> None:
    """One program per tile of tile_rows rows × BW words of one block, whose geometry comes with the launch."""
    program = tl.program_id(0).to(tl.int64)
    row, word = program // tiles_across * tile_rows, program % tiles_across * BW
    row_words, words_left = (row_bytes // 4).to(tl.int32), (words - word).to(tl.int32)
    corner = (address + row * row_bytes + word * 4).to(tl.pointer_type(tl.uint32))
    if ALIGNED:
        row_words, words_left = tl.multiple_of(row_words, 4), tl.multiple_of(words_left, 4)
        corner = tl.multiple_of(corner, 16)
    tile = first_tile + program
    words_tile(
        corner,
        row_words,
        tl.minimum(rows - row, tile_rows).to(tl.int32),
        words_left,
        first_row + row * row_stride,
        row_stride,
        first_word + word,
        key_table,
        lanes + 2 * tile,
        floats + 2 * tile,
        counts + 4 * tile,
        BITS,
        KIND,
        MANTISSA,
        BIAS,
        LIMIT,
        STATISTICS,
        KEY_TABLE,
        RB,
        UNROLL,
        BW,
    )


@kernel()
def table_elements(
    tiles: tl.tensor,  # int32, n × 4: block, first row, first column, 0
    blocks: tl.tensor,
    addresses: tl.tensor,
    lanes: tl.tensor,
    floats: tl.tensor,
    counts: tl.tensor,
    HELD: tl.constexpr,
    BITS: tl.constexpr,
    KIND: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    STATISTICS: tl.constexpr,
    BR: tl.constexpr,
    RB: tl.constexpr,
    CB: tl.constexpr,
) -> None:
    """One program per tile of BR rows × CB elements."""
    tile = tl.program_id(0).to(tl.int64)
    index = tl.load(tiles + 4 * tile).to(tl.int64)
    block = blocks + 9 * index
    row, col = tl.load(tiles + 4 * tile + 1), tl.load(tiles + 4 * tile + 2)
    row_bytes, col_bytes = tl.load(block + 1), tl.load(block + 2)
    row_stride, col_stride = tl.load(block + 6), tl.load(block + 8)
    elements_tile(
        tl.load(addresses + index) + row * row_bytes + col * col_bytes,
        row_bytes,
        col_bytes,
        tl.minimum(tl.load(block + 3) - row, BR).to(tl.int32),
        tl.load(block + 4) - col,
        tl.load(block + 5) + row * row_stride,
        row_stride,
        tl.load(block + 7) + col * col_stride,
        col_stride,
        lanes + 2 * tile,
        floats + 2 * tile,
        counts + 4 * tile,
        HELD,
        BITS,
        KIND,
        MANTISSA,
        BIAS,
        STATISTICS,
        RB,
        CB,
    )


@kernel()
def add_tiles(
    ranges: tl.tensor,  # int64, blocks × 2: first tile, one past the last
    lanes: tl.tensor,  # of tiles
    floats: tl.tensor,
    counts: tl.tensor,
    block_lanes: tl.tensor,  # int64, blocks × 2
    block_floats: tl.tensor,  # float64, blocks × 2
    block_counts: tl.tensor,  # int64, blocks × 4
    STATISTICS: tl.constexpr,
    N: tl.constexpr,
) -> None:
    """One program per block: its tiles' outputs, added N at a time."""
    block = tl.program_id(0).to(tl.int64)
    first, end = tl.load(ranges + 2 * block), tl.load(ranges + 2 * block + 1)
    i = tl.arange(0, N)
    lane_0 = tl.zeros((N,), tl.int64)
    lane_1 = tl.zeros((N,), tl.int64)
    absmax = tl.zeros((N,), tl.float64)
    squares = tl.zeros((N,), tl.float64)
    zeros = tl.zeros((N,), tl.int64)
    nans = tl.zeros((N,), tl.int64)
    infs = tl.zeros((N,), tl.int64)
    lossy = tl.zeros((N,), tl.int64)
    for start in range(first, end, N):
        at = start + i
        mask = at < end
        lane_0 += tl.load(lanes + 2 * at, mask=mask, other=0)
        lane_1 += tl.load(lanes + 2 * at + 1, mask=mask, other=0)
        lossy += tl.load(counts + 4 * at + 3, mask=mask, other=0)
        if STATISTICS:
            absmax = tl.maximum(absmax, tl.load(floats + 2 * at, mask=mask, other=0.0))
            squares += tl.load(floats + 2 * at + 1, mask=mask, other=0.0)
            zeros += tl.load(counts + 4 * at, mask=mask, other=0)
            nans += tl.load(counts + 4 * at + 1, mask=mask, other=0)
            infs += tl.load(counts + 4 * at + 2, mask=mask, other=0)
    tl.store(block_lanes + 2 * block, tl.sum(lane_0, 0))
    tl.store(block_lanes + 2 * block + 1, tl.sum(lane_1, 0))
    tl.store(block_floats + 2 * block, tl.max(absmax, 0))
    tl.store(block_floats + 2 * block + 1, tl.sum(squares, 0))
    tl.store(block_counts + 4 * block, tl.sum(zeros, 0))
    tl.store(block_counts + 4 * block + 1, tl.sum(nans, 0))
    tl.store(block_counts + 4 * block + 2, tl.sum(infs, 0))
    tl.store(block_counts + 4 * block + 3, tl.sum(lossy, 0))
