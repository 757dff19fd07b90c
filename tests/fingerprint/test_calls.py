"""The calls: many at once, tables kept between versions, streams; what is refused, and what isn't kept alive."""

import gc
import weakref

import pytest
import torch

from bridge_plugins.fingerprint import (
    Box,
    FingerprintStream,
    FingerprintTable,
    Part,
    fingerprint,
    fingerprint_many,
)
from bridge_plugins.fingerprint.backend import Backend, backend_of
from bridge_plugins.fingerprint.part import resolve
from tests.fingerprint.cases import assert_same, by_definition


def test_many_at_once_in_order() -> None:
    tensors = [
        torch.randn(5, 7),
        torch.randn(3).double(),
        torch.arange(12).reshape(3, 4),
        torch.randn(4, 4).t(),
    ]
    parts = [*tensors, Part(tensors[0], Box((2, 3), (9, 1)))]
    found = fingerprint_many(parts)
    assert found[:4] == [fingerprint(tensor) for tensor in tensors]
    assert found[4] == fingerprint(tensors[0][:2, :3], row_offset=9, col_offset=1)
    assert fingerprint_many([]) == []


def test_table_reads_what_is_there_now() -> None:
    tensors = [torch.randn(6, 8), torch.randn(3, 4, 5).transpose(0, 1)]
    table = FingerprintTable([Part(tensors[0], Box((2, 8), (4, 0), local_offset=(4, 0))), Part(tensors[1])])
    for _ in range(2):
        found = table.run(tensors).read()
        assert found[0] == fingerprint(tensors[0][4:], row_offset=4)
        assert found[1] == fingerprint(tensors[1])
        tensors[0].mul_(2)
        tensors[1] = torch.randn(3, 4, 5).transpose(0, 1)


def test_table_refuses_other_tensors() -> None:
    table = FingerprintTable([Part(torch.randn(6, 8))])
    others = (torch.randn(6, 9), torch.randn(8, 6).t(), torch.randn(6, 8).double())
    for other in (*others, torch._neg_view(torch.randn(6, 8))):
        with pytest.raises(ValueError, match=r"tensor 0 is now .* the table was made for"):
            table.run([other])
    with pytest.raises(ValueError, match="2 tensors for a table of 1 parts"):
        table.run([torch.randn(6, 8)] * 2)
    freed = torch.randn(6, 8)
    freed.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="tensor 0 has no memory of its own"):
        table.run([freed])


def test_stream_takes_tensors_as_they_pass() -> None:
    stream = FingerprintStream()
    buffer = torch.empty(4, 6)
    expected = []
    for step in range(3):
        buffer.fill_(step)
        expected.append(fingerprint(buffer))
        stream.add(buffer)
    stream.add(buffer, at=Box((2, 6), (1, 0)), as_dtype=torch.bfloat16)
    *whole, last = stream.read()
    assert whole == expected
    assert last == fingerprint(buffer[:2].bfloat16(), row_offset=1)
    assert stream.read() == []


def test_no_tensor_is_kept_alive() -> None:
    tensor = torch.randn(8, 8)
    alive = weakref.ref(tensor)
    table = FingerprintTable([Part(tensor)])
    pending = table.run([tensor])
    stream = FingerprintStream()
    stream.add(tensor)
    fingerprint(tensor)
    del tensor
    gc.collect()
    assert alive() is None
    assert pending.read() == stream.read()


def test_gradients_are_no_concern() -> None:
    parameter = torch.nn.Parameter(torch.randn(3, 4))
    assert fingerprint(parameter) == fingerprint(parameter.detach())


@pytest.mark.parametrize(
    ("tensor", "error", "says"),
    [
        (torch.empty(2, 3, device="meta"), ValueError, r"a meta tensor \(2, 3\) holds no bits"),
        (torch.eye(3).to_sparse(), ValueError, "sparse_coo tensor has no fingerprint"),
        (torch.zeros(2, dtype=torch.complex64), TypeError, "torch.complex64 has no fingerprint"),
    ],
)
def test_refused(tensor: torch.Tensor, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        fingerprint(tensor)


class Wrapper(torch.Tensor):
    """A tensor that wraps another and has no memory itself, as quantized ones do."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> "Wrapper":
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(
        cls, _call: object, _types: object, args: tuple[object, ...], _: object = None
    ) -> object:
        return args[0]


def test_what_has_no_memory_is_refused() -> None:
    """As after a sharded trainer has freed what it gathered: the kernels would read at address 0."""
    gathered = torch.randn(3, 4)
    rows = gathered[1:]
    gathered.untyped_storage().resize_(0)
    for tensor in (gathered, rows, Wrapper(torch.randn(3, 4))):
        with pytest.raises(ValueError, match=r"has no memory of its own to fingerprint"):
            fingerprint(tensor)


def test_places_that_make_no_sense() -> None:
    tensor = torch.zeros(3, 4)
    with pytest.raises(ValueError, match="not both"):
        fingerprint(tensor, row_offset=1, at=Box((3, 4)))
    with pytest.raises(ValueError, match="the box ends at local row 3, column 3, outside of 3 by 4"):
        fingerprint(tensor, at=Box((3, 4), local_offset=(1, 0)))
    with pytest.raises(ValueError, match="negative size or offset"):
        Box((1, -1))
    with pytest.raises(ValueError, match="strides of 1 or more"):
        Box((1, 1), stride=(0, 1))


def test_parts_of_different_dtypes_do_not_add() -> None:
    with pytest.raises(ValueError, match="parts of one tensor have one dtype"):
        fingerprint(torch.zeros(2)) + fingerprint(torch.zeros(2).half())


def test_what_has_no_fast_path_takes_the_reference() -> None:
    part = Part(torch.randn(4, 5), as_dtype=torch.float16)
    assert backend_of(resolve(part)) is Backend.REFERENCE
    assert_same(fingerprint_many([part])[0], by_definition(part))
