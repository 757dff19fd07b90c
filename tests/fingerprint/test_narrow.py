"""as_dtype: what is held wider than its source, taken as the source was."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge_plugins.fingerprint import Part, fingerprint, fingerprint_many
from bridge_plugins.fingerprint.formats import format_of
from tests.fingerprint.cases import assert_same, by_definition, random_bits, seeds

NARROWER = {
    torch.float32: [torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2],
    torch.float64: [torch.float32, torch.bfloat16, torch.float16],
    torch.bfloat16: [torch.float8_e4m3fn, torch.float8_e5m2],
}
pairs = st.sampled_from([(wide, narrow) for wide, narrows in NARROWER.items() for narrow in narrows])


@settings(deadline=None, max_examples=80)
@given(pairs, st.integers(1, 6), st.integers(1, 40), seeds)
def test_held_wider_is_the_same(
    pair: tuple[torch.dtype, torch.dtype], rows: int, cols: int, seed: int
) -> None:
    wide, narrow = pair
    source = torch.randn(rows, cols, generator=torch.Generator().manual_seed(seed)).to(narrow)
    held = fingerprint(source.to(wide), as_dtype=narrow)
    assert_same(held, fingerprint(source))
    assert held.lossy == 0


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.integers(1, 40), seeds)
def test_lossy_elements_are_counted(rows: int, cols: int, seed: int) -> None:
    values = random_bits((rows, cols), format_of(torch.float32), seed)
    part = Part(values, as_dtype=torch.bfloat16)
    found = fingerprint_many([part])[0]
    assert_same(found, by_definition(part))
    low = values.view(torch.int32) & 0xFFFF
    assert found.lossy == int((low != 0).sum())


def test_minus_zero_nan_and_infinity_survive() -> None:
    source = torch.tensor([-0.0, 0.0, float("inf"), float("-inf"), float("nan")])
    for narrow in (torch.bfloat16, torch.float16):
        taken = source.to(narrow)
        held = fingerprint(taken.float(), as_dtype=narrow)
        assert held.lossy == 0
        assert held.statistics == fingerprint(taken).statistics
        assert fingerprint(taken[:4].float(), as_dtype=narrow) == fingerprint(taken[:4])


def test_only_floats_convert() -> None:
    for tensor, dtype in ((torch.zeros(2, dtype=torch.int32), torch.int8), (torch.zeros(2), torch.int32)):
        with pytest.raises(TypeError, match="as_dtype takes floats as floats"):
            fingerprint(tensor, as_dtype=dtype)
