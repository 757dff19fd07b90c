"""Tensors read together are what they are one by one, and a table that is kept for their kind is never another's."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from bridge_plugins.fingerprint import FingerprintStream
from bridge_plugins.fingerprint.formats import Format, format_of
from tests.fingerprint.cases import assert_same, formats, random_bits, seeds, shapes

KINDS = ("as it is", "transposed", "every other row", "later in its storage", "odd address")


def held(tensor: Tensor, kind: str) -> Tensor:
    """The same bits as `tensor`, held in another way."""
    bits = tensor.view(format_of(tensor.dtype).integer)  # torch can't even copy some dtypes
    if kind == "transposed" and bits.ndim > 1:
        bits = bits.transpose(0, -1).contiguous().transpose(0, -1)
    elif kind == "every other row" and bits.ndim and bits.shape[0]:
        bits = torch.stack([bits, bits.clone()], dim=1)[:, 0]
    elif kind in ("later in its storage", "odd address"):
        before = 16 if kind == "later in its storage" else 1
        storage = torch.zeros(bits.numel() + before, dtype=bits.dtype)
        storage[before:] = bits.reshape(-1)
        bits = storage[before:].view(bits.shape)
    return bits.view(tensor.dtype)


@settings(deadline=None)
@given(
    st.lists(st.tuples(formats, shapes, seeds, st.sampled_from(KINDS)), min_size=1, max_size=6), st.booleans()
)
def test_together_is_one_by_one(
    drawn: list[tuple[Format, tuple[int, ...], int, str]], statistics: bool
) -> None:
    tensors = [held(random_bits(shape, taken, seed), kind) for taken, shape, seed, kind in drawn]
    together, alone = (FingerprintStream(statistics=statistics) for _ in range(2))
    facts = together.add_all(tensors)
    together.add(tensors[0])  # what comes alone keeps its place among them
    for tensor in [*tensors, tensors[0]]:
        alone.add(tensor)
    assert facts.shapes == [tuple(tensor.shape) for tensor in tensors]
    assert facts.nbytes == [tensor.nbytes for tensor in tensors]
    for found, expected in zip(together.read(), alone.read(), strict=True):
        assert_same(found, expected)


def test_tensors_of_one_kind_share_a_table_and_others_don_t() -> None:
    tensor = torch.randn(6, 8)
    alike = [tensor + step for step in range(3)]
    others = [tensor.bfloat16(), tensor[:, :6], tensor.t(), tensor[1:], torch._neg_view(tensor), tensor[:0]]
    together, alone = FingerprintStream(), FingerprintStream()
    tables = [together.add_all([one]) for one in [*alike, *others]]
    for one in [*alike, *others]:
        alone.add(one)
    assert len({id(table) for table in tables}) == 1 + len(others)
    assert together.read() == alone.read()


def test_they_are_read_at_once_and_not_kept() -> None:
    tensors = [torch.randn(6, 8), torch.randn(5)]
    together, alone = FingerprintStream(), FingerprintStream()
    for tensor in tensors:
        alone.add(tensor)
    together.add_all(tensors)
    for tensor in tensors:
        tensor.zero_()  # somebody else's by now
    assert together.read() == alone.read()


def test_freed_memory_is_refused_though_the_table_is_known() -> None:
    stream = FingerprintStream()
    kept, freed = torch.randn(6, 8), torch.randn(6, 8)
    stream.add_all([kept, freed])
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="has no memory of its own"):
        stream.add_all([kept, freed])
    with pytest.raises(ValueError, match="meta tensor"):
        stream.add_all([kept, torch.empty(3, device="meta")])
    with pytest.raises(TypeError):
        stream.add_all([kept, torch.zeros(3, dtype=torch.complex64)])
    assert len(stream.read()) == 2
