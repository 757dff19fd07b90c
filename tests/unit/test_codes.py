"""Codes survive copies and widening, are ordinary numbers, and are told apart from what they are not."""

from __future__ import annotations

import pytest
import torch

from bridge_plugins.layout.codes import BASE, CODE_A, CODE_B, CODED_DTYPES, decode, digits_for, encode

EVERY_DIGIT = torch.arange(BASE)


@pytest.mark.parametrize("code", [CODE_A, CODE_B])
@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_every_digit_comes_back(dtype: torch.dtype, code: str) -> None:
    values = encode(EVERY_DIGIT, dtype, code)
    assert values.dtype is dtype
    assert torch.equal(decode(values, code).to(torch.int64), EVERY_DIGIT)


@pytest.mark.parametrize("code", [CODE_A, CODE_B])
@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_codes_are_finite_normal_and_exact_when_widened(dtype: torch.dtype, code: str) -> None:
    values = encode(EVERY_DIGIT, dtype, code)
    assert bool(values.isfinite().all())
    assert float(values.abs().min()) >= torch.finfo(dtype).smallest_normal
    assert torch.equal(decode(values.float(), code).to(torch.int64), EVERY_DIGIT)


@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_one_code_is_no_digit_of_the_other_and_zero_is_none(dtype: torch.dtype) -> None:
    assert bool((decode(encode(EVERY_DIGIT, dtype, CODE_A), CODE_B) == -1).all())
    assert int(decode(torch.zeros(1, dtype=dtype))[0]) == -1


@pytest.mark.parametrize("held", CODED_DTYPES, ids=str)
@pytest.mark.parametrize("sent", CODED_DTYPES, ids=str)
def test_a_digit_survives_any_cast_between_the_dtypes(sent: torch.dtype, held: torch.dtype) -> None:
    assert torch.equal(decode(encode(EVERY_DIGIT, sent).to(held)).to(torch.int64), EVERY_DIGIT)


COMPUTED = {
    "plus one": lambda w: w + 1,
    "doubled": lambda w: w * 2,
    "halved": lambda w: w / 2,
    "negated": lambda w: -w,
    "scaled": lambda w: w * 1.5,
    "shifted": lambda w: w + 2**-7,
    "zeroed": torch.zeros_like,
}


@pytest.mark.parametrize("computed", COMPUTED)
@pytest.mark.parametrize("dtype", CODED_DTYPES, ids=str)
def test_what_was_computed_is_not_the_same_digit_in_both_codes(dtype: torch.dtype, computed: str) -> None:
    first = decode(COMPUTED[computed](encode(EVERY_DIGIT, dtype, CODE_A)), CODE_A)
    second = decode(COMPUTED[computed](encode(EVERY_DIGIT, dtype, CODE_B)), CODE_B)
    # Digit for digit but for a few that rounding brings back: a block is copied only if all of it is.
    assert int(((first == second) & (first >= 0)).sum()) <= 8


@pytest.mark.parametrize(
    ("count", "digits"), [(1, 1), (BASE, 1), (BASE + 1, 2), (BASE**2, 2), (BASE**2 + 1, 3)]
)
def test_digits_for(count: int, digits: int) -> None:
    assert digits_for(count) == digits
