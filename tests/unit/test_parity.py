from __future__ import annotations

import math

import pytest

from bridge_plugins.parity.engine import Sample
from bridge_plugins.parity.metrics import compare


def test_differences_count_every_token_and_kl_the_sampled_ones() -> None:
    one = Sample((1, 2, 3, 4), 2, (-1.0, -2.0, -3.0), ("7",))
    found = compare([one], [(-1.5, -2.0, -3.25)])
    assert found.tokens == 3
    assert found.max_abs == 0.5
    assert found.mean_abs == pytest.approx(0.25)
    assert found.kl_k1 == pytest.approx(0.125)
    assert found.kl_k3 == pytest.approx((math.exp(-0.25) - 1 + 0.25) / 2)
    assert found.versions == ("7",)
    assert found.mixed == 0


def test_a_nan_is_not_passed_over() -> None:
    assert math.isnan(compare([Sample((1, 2, 3), 1, (-1.0, -2.0), ("7",))], [(math.nan, -2.1)]).max_abs)


def test_samples_of_two_versions_are_mixed() -> None:
    samples = [Sample((1, 2), 1, (0.0,), ("7", "8")), Sample((1, 2), 1, (0.0,), ("8",))]
    found = compare(samples, [(0.0,), (0.0,)])
    assert found.mixed == 1
    assert found.versions == ("7", "8")
