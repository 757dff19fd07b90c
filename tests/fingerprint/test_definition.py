"""The reference against the definition's formula, written a second time in Python's own integers."""

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.fingerprint import VERSION, Box, Part, fingerprint
from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.keys import COL, ROW, SEEDS, key, splitmix64
from bridge_plugins.fingerprint.reference import row_keys, word_keys
from tests.fingerprint.cases import FORMATS, assert_same, by_definition, formats, random_bits, seeds

VECTORS = json.loads((Path(__file__).parent / "vectors_v1.json").read_text())


def by_formula(rows: list[bytes]) -> tuple[int, int]:
    """Σ R(row) · C(word) · word over rows of bytes, padded with zeros to whole words."""
    lanes = []
    for lane in (0, 1):
        total = 0
        for r, row in enumerate(rows):
            padded = row + bytes(-len(row) % 4)
            for c in range(len(padded) // 4):
                word = int.from_bytes(padded[4 * c : 4 * c + 4], "little")
                total += key(lane, ROW, r) * key(lane, COL, c) * word
        lanes.append(total % 2**64)
    return lanes[0], lanes[1]


@given(formats, st.integers(1, 5), st.integers(1, 11), seeds)
def test_reference_is_the_formula(taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    raw = [bytes(row.tolist()) for row in tensor.view(torch.uint8).reshape(rows, -1)]
    assert by_definition(Part(tensor)).lanes == by_formula(raw)


def test_splitmix64_is_vignas() -> None:
    # The first outputs of the published C code for seed 0: its state grows by the golden gamma each time.
    gamma = 0x9E3779B97F4A7C15
    outputs = [splitmix64(gamma * step % 2**64) for step in range(3)]
    assert outputs == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_keys_are_odd_32_bit_numbers_of_four_streams() -> None:
    index = torch.arange(20_000)
    streams = [keys(lane, index) for lane in (0, 1) for keys in (row_keys, word_keys)]
    for stream in streams:
        assert bool((stream % 2 == 1).all())
        assert int(stream.min()) >= 0
        assert int(stream.max()) < 2**32
    seen = torch.cat(streams)
    # Of 80,000 random odd 32-bit numbers about 1.5 pairs agree; streams derived from one another share thousands.
    assert len(seen) - len(seen.unique()) < 20
    assert len({seed for pair in SEEDS for seed in pair}) == 4


@pytest.mark.parametrize("index", [0, 1, 2**31, 2**32 + 7, 2**40])
def test_tensor_keys_are_the_scalar_ones(index: int) -> None:
    for lane in (0, 1):
        assert int(row_keys(lane, torch.tensor([index]))) == key(lane, ROW, index)
        assert int(word_keys(lane, torch.tensor([index]))) == key(lane, COL, index)


def test_vectors_are_of_this_version_and_of_every_dtype() -> None:
    assert VECTORS["version"] == VERSION == 1
    assert {vector["dtype"] for vector in VECTORS["vectors"]} >= {taken.name for taken in FORMATS}


@pytest.mark.parametrize("vector", VECTORS["vectors"], ids=lambda v: f"{v['dtype']}-{v['shape']}")
def test_vectors(vector: dict[str, object]) -> None:
    taken = next((taken for taken in FORMATS if taken.name == vector["dtype"]), None)
    if taken is None:
        pytest.skip(f"this torch has no {vector['dtype']}")
    tensor = counted(vector["shape"], taken)  # type: ignore[arg-type]
    at = Box(tuple(vector["size"]), tuple(vector["offset"]), tuple(vector["stride"]))  # type: ignore[arg-type]
    expected = tuple(int(lane, 16) for lane in vector["lanes"])  # type: ignore[attr-defined]
    assert by_definition(Part(tensor, at)).lanes == expected
    assert fingerprint(tensor, at=at).lanes == expected


def counted(shape: list[int], taken: Format) -> torch.Tensor:
    """The tensor of a test vector: its bytes are the low bytes of splitmix64(0), splitmix64(1), …"""
    count = taken.bytes
    for size in shape:
        count *= size
    raw = torch.tensor([splitmix64(i) & 0xFF for i in range(count)], dtype=torch.uint8)
    return raw.reshape(*shape, taken.bytes).view(taken.dtype).reshape(shape)


def test_scalar_vector_and_empty() -> None:
    scalar, row = torch.tensor(2.5), torch.tensor([2.5])
    assert fingerprint(scalar) == fingerprint(row) == fingerprint(row.reshape(1, 1, 1))
    for shape in ((0,), (3, 0), (0, 3), (2, 0, 4)):
        empty = fingerprint(torch.empty(shape))
        assert (empty.lanes, empty.count) == ((0, 0), 0)
        assert empty.coverage.check(shape).complete


def test_leading_dimensions_are_rows() -> None:
    tensor = torch.randn(3, 4, 5)
    assert fingerprint(tensor) == fingerprint(tensor.reshape(12, 5))
    assert fingerprint(tensor) != fingerprint(tensor.reshape(3, 20))


def test_offsets_are_short_for_a_box() -> None:
    tensor = torch.randn(3, 4)
    assert fingerprint(tensor, row_offset=5, col_offset=2) == fingerprint(tensor, at=Box((3, 4), (5, 2)))


def test_bits_are_told_apart() -> None:
    assert fingerprint(torch.tensor([0.0])) != fingerprint(torch.tensor([-0.0]))
    values = torch.randn(4, 4).bfloat16()
    assert fingerprint(values) != fingerprint(values.float())
    assert_same(fingerprint(values.clone()), fingerprint(values))
