"""A bucket read in one pass is what its tensors are one by one, wherever they lie in it, and nothing beyond it is read."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.fingerprint import FingerprintStream, Part
from bridge_plugins.fingerprint.flat import Slice
from bridge_plugins.fingerprint.formats import Format
from tests.fingerprint.cases import assert_same, by_definition, formats, random_bits, seeds, shapes

Flat = tuple[Tensor, tuple[Slice, ...], list[Tensor]]


def flat(tensors: list[Tensor], gap: int = 0, before: int = 0) -> Flat:
    """Tensors in one buffer, each where its dtype may begin, `gap` elements further on."""
    slices: list[Slice] = []
    end = before
    for tensor in tensors:
        width = tensor.element_size()
        start = -(-end // width) * width + gap * width
        end = start + tensor.nbytes
        slices.append((start, tensor.shape, tensor.dtype))
    buffer = torch.full((end,), 0xA5, dtype=torch.uint8)
    views = [
        buffer[start : start + t.nbytes].view(t.dtype).view(t.shape)
        for (start, _, _), t in zip(slices, tensors, strict=True)
    ]
    for view, tensor in zip(views, tensors, strict=True):
        view.copy_(tensor)
    return buffer, tuple(slices), views


@settings(deadline=None)
@given(
    st.lists(st.tuples(formats, shapes, seeds), min_size=1, max_size=6), st.integers(0, 3), st.integers(0, 40)
)
def test_one_pass_is_one_by_one(
    drawn: list[tuple[Format, tuple[int, ...], int]], gap: int, before: int
) -> None:
    buffer, slices, views = flat(
        [random_bits(shape, taken, seed) for taken, shape, seed in drawn], gap, before
    )
    stream, alone = FingerprintStream(), FingerprintStream()
    facts = stream.add_flat(buffer, slices)
    stream.add(views[0])  # what comes alone keeps its place among them
    for view in [*views, views[0]]:
        alone.add(view)
    assert facts.shapes == [tuple(view.shape) for view in views]
    assert facts.nbytes == [view.nbytes for view in views]
    for found, expected, view in zip(stream.read(), alone.read(), [*views, views[0]], strict=True):
        assert_same(found, expected)
        assert found == by_definition(Part(view))


def test_a_bucket_laid_out_alike_is_read_anew_at_its_own_place() -> None:
    kept = []
    stream = FingerprintStream()
    for step in range(3):
        buffer, slices, views = flat([torch.randn(6, 8) + step, torch.randn(5).bfloat16()])
        kept.append((buffer, views))
        stream.add_flat(buffer, slices)
    alone = FingerprintStream()
    for _, views in kept:
        for view in views:
            alone.add(view)
    assert stream.read() == alone.read()


def test_what_it_holds_is_read_at_once() -> None:
    buffer, slices, views = flat([torch.randn(6, 8)])
    stream, alone = FingerprintStream(), FingerprintStream()
    stream.add_flat(buffer, slices)
    alone.add(views[0])
    buffer.zero_()  # somebody else's by now
    assert stream.read() == alone.read()


def test_a_table_that_leaves_the_buffer_is_refused() -> None:
    buffer, slices, _ = flat([torch.randn(6, 8), torch.randn(5)])
    stream = FingerprintStream()
    stream.add_flat(buffer, slices)
    with pytest.raises(ValueError, match="a buffer of 211 bytes for tensors that end at byte 212"):
        stream.add_flat(buffer[:-1], slices)
    with pytest.raises(ValueError, match="does not begin at a multiple"):
        stream.add_flat(buffer, ((2, torch.Size([3]), torch.float32),))
    with pytest.raises(TypeError):
        stream.add_flat(buffer, ((0, torch.Size([3]), torch.complex64),))
    assert len(stream.read()) == 2
