"""Tensors, cuts and comparisons that the tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.fingerprint import Box, Fingerprint, Part
from bridge_plugins.fingerprint.formats import Format, supported
from bridge_plugins.fingerprint.part import resolve
from bridge_plugins.fingerprint.reference import fingerprint_reference

FORMATS = supported()

Cut = list[tuple[slice, slice]]


def random_bits(shape: Sequence[int], taken: Format, seed: int) -> Tensor:
    """A tensor whose bits are random: every pattern of the dtype comes, NaN and Inf too; bools are 0 or 1."""
    if 0 in shape:
        return torch.empty(tuple(shape), dtype=taken.dtype)
    generator = torch.Generator().manual_seed(seed)
    size = (*shape, taken.bytes)
    raw = torch.randint(0, 256, size, dtype=torch.uint8, generator=generator)
    if taken.name == "bool":
        raw &= 1  # a copy by torch would make other bytes 1
    return raw.view(taken.dtype).reshape(tuple(shape))


def by_definition(part: Part, statistics: bool = True) -> Fingerprint:
    """What the reference says, whatever path is the fast one."""
    block = resolve(part)
    return fingerprint_reference(block.view, block.box, block.held, block.taken, statistics)


def assert_same(found: Fingerprint, expected: Fingerprint) -> None:
    """Equal, statistics and lossy elements included; sums of squares within their tolerance."""
    assert found == expected
    assert found.lossy == expected.lossy
    mine, theirs = found.statistics, expected.statistics
    assert (mine is None) == (theirs is None)
    if mine is None or theirs is None:
        return
    assert (mine.absmax, mine.zeros, mine.nans, mine.infs) == (
        theirs.absmax,
        theirs.zeros,
        theirs.nans,
        theirs.infs,
    )
    squares, other = mine.sum_of_squares, theirs.sum_of_squares
    assert squares == other or abs(squares - other) <= 1e-5 * other


formats = st.sampled_from(FORMATS)
seeds = st.integers(0, 2**32 - 1)
shapes = st.one_of(
    st.just(()),
    st.lists(st.integers(0, 9), min_size=1, max_size=4).map(tuple),
    st.tuples(st.integers(1, 40), st.integers(1, 90)),
    st.tuples(st.integers(1, 3), st.integers(1000, 3000)),
)


def _strided(tensor: Tensor) -> list[Tensor]:
    views = [tensor]
    if tensor.dim() >= 1 and tensor.shape[-1] > 1:
        views += [tensor[..., 1:], tensor[..., ::2]]
    if tensor.dim() >= 2:
        views += [tensor.transpose(0, 1), tensor.transpose(-1, -2), tensor[1:]]
    return views


@st.composite
def tensors(draw: Callable[[st.SearchStrategy[object]], object]) -> Tensor:
    """Any dtype, shape and strides."""
    taken, shape, seed = draw(formats), draw(shapes), draw(seeds)
    assert isinstance(taken, Format)
    assert isinstance(shape, tuple)
    assert isinstance(seed, int)
    views = _strided(random_bits(shape, taken, seed))
    index = draw(st.integers(0, len(views) - 1))
    assert isinstance(index, int)
    return views[index]


@st.composite
def boxes(draw: Callable[[st.SearchStrategy[object]], object], tensor: Tensor) -> Box:
    """A block of a tensor of two dimensions, at some place."""

    def along(size: int) -> tuple[int, int, int]:
        stride = draw(st.integers(1, 3))
        offset = draw(st.integers(0, max(0, size - 1)))
        assert isinstance(stride, int)
        assert isinstance(offset, int)
        count = draw(st.integers(0, max(0, (size - offset + stride - 1) // stride)))
        assert isinstance(count, int)
        return offset, stride, count

    transposed = draw(st.booleans())
    rows, cols = tensor.shape if not transposed else tensor.shape[::-1]
    row, col = along(rows), along(cols)
    place = [draw(st.integers(0, 2**33)), draw(st.integers(0, 300)), draw(st.integers(1, 5))]
    return Box(
        size=(row[2], col[2]),
        offset=(place[0], place[1]),
        stride=(place[2], draw(st.integers(1, 3))),
        local_offset=(row[0], col[0]),
        local_stride=(row[1], col[1]),
        transposed=bool(transposed),
    )
