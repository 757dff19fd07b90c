"""Misses of a generator scaled down until they can be counted, against the theory."""

import math

import numpy as np
import pytest

from benchmarks.fingerprint.strength import TRIALS, _transposed, cases, miss_rate


@pytest.mark.ci
@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_rate_is_the_theorys(case: tuple[str, object, float]) -> None:
    _, difference, theory = case
    rate = miss_rate(difference, np.random.default_rng(1))  # type: ignore[arg-type]
    # Five standard deviations of a count, and never less than one miss.
    assert abs(rate - theory) <= 5 * math.sqrt(theory / TRIALS) + 1 / TRIALS * (theory > 0)


@pytest.mark.ci
def test_a_transpose_goes_unseen_with_one_stream() -> None:
    generator = np.random.default_rng(1)
    assert miss_rate(_transposed, generator, one_stream=True) == 1
    assert miss_rate(_transposed, generator) < 0.01
