# ruff: noqa: N803, N806 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Words of a tile from memory, whole or put together from elements."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint.cuda.jit import kernel


@kernel()
def inside(
    row: tl.tensor, col: tl.tensor, rows: tl.tensor, cols: tl.tensor, WIDTH: tl.constexpr, FLAT: tl.constexpr
) -> tl.tensor:
    """Which of a tile's rows × columns are there; a flat tile's rows of WIDTH follow each other along one."""
    if FLAT:
        return row[:, None] * WIDTH + col[None, :] < cols
    return (row < rows)[:, None] & (col < cols)[None, :]


@kernel()
def load_words(
    corner: tl.tensor,  # pointer to what a load takes
    row: tl.tensor,
    rows: tl.tensor,
    cols: tl.tensor,  # words of a row if whole words are loaded, else elements
    row_step: tl.tensor,  # int32, in loads
    col_step: tl.tensor,
    BITS: tl.constexpr,
    WALK: tl.constexpr,
) -> tl.tensor:
    """Some rows of a tile, uint32; 0 where nothing is there."""
    col = tl.arange(0, WALK.cols)
    if WALK.load == 4:
        words = tl.load(
            corner + row[:, None] * row_step + (col * col_step)[None, :],
            mask=inside(row, col, rows, cols, WALK.cols, WALK.flat),
            other=0,
            eviction_policy="evict_first",
        )
    else:
        PER_WORD: tl.constexpr = 32 // BITS
        RB: tl.constexpr = WALK.step
        BW: tl.constexpr = WALK.cols
        words = tl.zeros((RB, BW), tl.uint32)
        for i in tl.static_range(PER_WORD):
            element = col * PER_WORD + i
            part = tl.load(
                corner + row[:, None] * row_step + (element * col_step)[None, :],
                mask=inside(row, element, rows, cols, WALK.cols * PER_WORD, WALK.flat),
                other=0,
            )
            words |= part.to(tl.uint32) << (BITS * i)
    return words
