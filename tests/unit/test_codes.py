"""Codes survive copies and widening, are ordinary numbers, and are told apart from what they are not."""

from __future__ import annotations

import pytest
import torch

from bridge_plugins.layout.codes import BASE, CODE_A, CODE_B, CODED_DTYPES, decode, digits_for, encode

EVERY_DIGIT = torch.arange(BASE)


@pytest.mark.parametrize("code", [CODE_A, CODE_B])
@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_every_digit_comes_back(dtype: torch.dtype, code: int) -> None:
    values = encode(EVERY_DIGIT, dtype, code)
    assert values.dtype is dtype
    assert torch.equal(decode(values, dtype, code).to(torch.int64), EVERY_DIGIT)


@pytest.mark.parametrize("code", [CODE_A, CODE_B])
@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_codes_are_finite_normal_and_exact_when_widened(dtype: torch.dtype, code: int) -> None:
    values = encode(EVERY_DIGIT, dtype, code)
    assert bool(values.isfinite().all())
    assert float(values.abs().min()) >= torch.finfo(dtype).smallest_normal
    assert torch.equal(decode(values.float(), dtype, code).to(torch.int64), EVERY_DIGIT)


@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_one_code_is_no_digit_of_the_other_and_zero_is_none(dtype: torch.dtype) -> None:
    assert bool((decode(encode(EVERY_DIGIT, dtype, CODE_A), dtype, CODE_B) == -1).all())
    assert int(decode(torch.zeros(1, dtype=dtype), dtype)[0]) == -1


def test_what_was_computed_is_no_code() -> None:
    values = encode(EVERY_DIGIT, torch.bfloat16).float()
    assert bool((decode(values + 1, torch.bfloat16) == -1).all())
    assert bool((decode(values * 1.0001, torch.bfloat16) == -1).all())


@pytest.mark.parametrize(
    ("count", "digits"), [(1, 1), (BASE, 1), (BASE + 1, 2), (BASE**2, 2), (BASE**2 + 1, 3)]
)
def test_digits_for(count: int, digits: int) -> None:
    assert digits_for(count) == digits
