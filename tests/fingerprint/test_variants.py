"""Which kernel takes a block: what holds for any geometry, far beyond what a test could allocate."""

import numpy as np
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge_plugins.fingerprint.cuda.variant import Variant, variants
from bridge_plugins.fingerprint.formats import Format, format_of
from tests.fingerprint.cases import formats

sizes = st.one_of(st.integers(1, 300), st.sampled_from([1000, 4096, 5000, 2**16, 2**20, 2**24]))


def variant(taken: Format, rows: int, cols: int, row_bytes: int, col_bytes: int) -> Variant:
    table = np.array([[1 << 20, row_bytes, col_bytes, rows, cols, 0, 1, 0, 1]], np.int64)
    [(chosen, members)] = variants(table, taken, taken, True).items()
    assert members.tolist() == [0]
    return chosen


@settings(deadline=None, max_examples=300)
@example(format_of(torch.bfloat16), 8192, 4, 2**23, False)  # four columns of a very wide tensor
@example(format_of(torch.bfloat16), 4096, 4096, 2**28, True)
@given(formats, sizes, sizes, st.integers(0, 2**28), st.booleans())
def test_offsets_inside_a_tile_fit_32_bits(
    taken: Format, rows: int, cols: int, gap: int, transposed: bool
) -> None:
    pitch = taken.bytes * ((rows if transposed else cols) + gap)
    row_bytes, col_bytes = (taken.bytes, pitch) if transposed else (pitch, taken.bytes)
    chosen = variant(taken, rows, cols, row_bytes, col_bytes)
    if not chosen.walk.words:
        return  # that kernel's are 64-bit
    tile_rows, words = chosen.tile
    steps = 0 if chosen.walk.flat else min(tile_rows, rows) - 1
    along = words * 4 // taken.bytes * (col_bytes if chosen.walk.across else taken.bytes)
    assert steps * row_bytes + along < 2**31


def test_common_layouts_take_whole_words_16_bytes_at_a_time() -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float32):
        taken = format_of(dtype)
        chosen = variant(taken, 768, 2048, 2048 * taken.bytes, taken.bytes)
        assert (chosen.walk.words, chosen.walk.load, chosen.walk.align) == (True, 4, 4)


@settings(deadline=None, max_examples=200)
@example(format_of(torch.float8_e4m3fn), 2**16, 2**16)
@given(formats, sizes, sizes)
def test_counters_inside_a_word_hold_a_tile(taken: Format, rows: int, cols: int) -> None:
    """A counter per element in each word counts as many elements as a tile has steps."""
    chosen = variant(taken, rows, cols, taken.bytes * cols, taken.bytes)
    assert chosen.rows // chosen.walk.step < 2 ** min(taken.bits, 32)
