"""The kernels, in Triton's interpreter on CPU tensors, against the reference, bit for bit."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge_plugins.fingerprint import Box, Fingerprint, Part
from bridge_plugins.fingerprint.cuda.stream import DeviceStream
from bridge_plugins.fingerprint.cuda.table import DeviceTable
from bridge_plugins.fingerprint.formats import Format, Kind, format_of
from bridge_plugins.fingerprint.geometry import ADDRESS, geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import resolve
from bridge_plugins.fingerprint.pending import PendingFingerprints, Place
from tests.fingerprint.cases import FORMATS, assert_same, boxes, by_definition, random_bits, seeds

CPU = torch.device("cpu")
FEW = [format_of(torch.bfloat16)]


def values(parts: list[Part], measured: Measured, statistics: bool) -> list[Fingerprint]:
    places = [Place.of(resolve(part)) for part in parts]
    return PendingFingerprints(places, [(np.arange(len(places)), lambda: measured)], statistics).read()


def check_table(parts: list[Part], statistics: bool = True) -> None:
    blocks = [resolve(part) for part in parts]
    table = geometry(blocks)
    made = DeviceTable(table, [(block.held, block.taken) for block in blocks], CPU, statistics)
    found = values(parts, made.run(table[:, ADDRESS].copy()).read(), statistics)
    for part, mine in zip(parts, found, strict=True):
        assert_same(mine, by_definition(part, statistics))


def check_stream(parts: list[Part], statistics: bool = True) -> None:
    stream = DeviceStream(CPU, statistics)
    for part in parts:
        if part.box is not None or stream.add_whole(part.tensor) is None:
            stream.add(resolve(part), part.tensor)
    found = values(parts, stream.read(), statistics)
    for part, mine in zip(parts, found, strict=True):
        assert_same(mine, by_definition(part, statistics))


def shapes_of(taken: Format) -> list[tuple[int, int]]:
    """One for each walk: long rows, aligned and not, short ones, one long row, rows that aren't whole words."""
    per_word = max(1, 4 // taken.bytes)
    wide = [(9, 160 * per_word), (5, 133 * per_word)]
    odd = [(3, 7), (5, 259), (1, 4103)] if taken.bytes < 4 else []
    return [*wide, (7, 4 * per_word), (3, 16 * per_word), (5, 2 * per_word), (2, 1100 * per_word), *odd]


def parts_of(taken: Format) -> list[Part]:
    parts = [Part(random_bits(shape, taken, seed)) for seed, shape in enumerate(shapes_of(taken))]
    if taken.kind in (Kind.IEEE, Kind.FN):
        weights = (torch.randn(9, 160 * max(1, 4 // taken.bytes)) * 0.02).to(taken.dtype)
        weights[2] = 0
        parts.append(Part(weights))
    return parts


def others_of(taken: Format) -> list[Part]:
    tensor = random_bits((9, 12), taken, 7)
    return [
        Part(tensor.t()),
        Part(random_bits((11, 140), taken, 8).t()),
        Part(tensor[1:, ::2]),
        Part(tensor, Box((4, 5), (2**31, 7), (3, 2), (1, 2), (2, 1))),
        Part(tensor, Box((9, 8), (5, 8), (2, 1))),
        Part(torch.empty((0, 4), dtype=taken.dtype)),
        Part(tensor[0, 0]),
    ]


@pytest.mark.parametrize("taken", FEW, ids=lambda taken: taken.name)
def test_table_and_stream(taken: Format) -> None:
    check_table(parts_of(taken))
    few = parts_of(taken)[2:]
    check_stream([*few, few[0], few[-1]])


@pytest.mark.ci
def test_other_strides_and_narrowing() -> None:
    check_table(others_of(format_of(torch.bfloat16)))
    check_table([Part(torch.randn(3, 9), as_dtype=torch.bfloat16), Part(torch.randn(2, 3, 4).double())])


@pytest.mark.ci
@pytest.mark.parametrize("taken", FORMATS, ids=lambda taken: taken.name)
def test_every_dtype(taken: Format) -> None:
    check_table(parts_of(taken) + others_of(taken))


@pytest.mark.ci
def test_without_statistics() -> None:
    for dtype in (torch.bfloat16, torch.float64):
        parts = parts_of(format_of(dtype)) + others_of(format_of(dtype))
        check_table(parts, statistics=False)
        check_stream(parts[2:5] + parts[-2:], statistics=False)


@pytest.mark.ci
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data(), st.sampled_from(FORMATS), st.integers(1, 12), st.integers(1, 40), seeds)
def test_any_block_at_any_place(data: st.DataObject, taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    check_table([Part(tensor, data.draw(boxes(tensor))), Part(tensor)])


def test_a_table_refuses_pointers_that_are_less_aligned() -> None:
    tensor = torch.randn(4, 8)
    table = geometry([resolve(Part(tensor))])
    made = DeviceTable(table, [(format_of(torch.float32),) * 2], CPU, True)
    with pytest.raises(ValueError, match="by no multiple of 16 bytes"):
        made.run(table[:, ADDRESS] + 4)


def test_a_stream_does_not_take_a_tensor_for_the_copy_that_was_made_of_another() -> None:
    """Leading dimensions exchanged: no 2-D view has these rows, so each tensor of the kind must be copied."""
    stacked = [torch.randn(3, 2, 8).transpose(0, 1) for _ in range(2)]
    check_stream([Part(tensor) for tensor in stacked], statistics=False)


@pytest.mark.ci
def test_more_tiles_than_a_page_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge_plugins.fingerprint.cuda.stream._PAGE", 3)
    check_stream([Part(torch.randn(6, 8)) for _ in range(5)] + [Part(torch.randn(40, 300))], statistics=False)
