"""Statistics against NumPy's, for dtypes that NumPy knows."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge_plugins.fingerprint import Statistics, fingerprint
from bridge_plugins.fingerprint.formats import Format
from tests.fingerprint.cases import FORMATS, random_bits, seeds

KNOWN = [f for f in FORMATS if hasattr(np, f.name) and f.name != "bool"]


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(KNOWN), st.integers(1, 9), st.integers(1, 50), seeds)
def test_against_numpy(taken: Format, rows: int, cols: int, seed: int) -> None:
    tensor = random_bits((rows, cols), taken, seed)
    values = tensor.numpy().astype(np.float64)
    finite = values[np.isfinite(values)]
    found = fingerprint(tensor).statistics
    assert found is not None
    assert found.zeros == (values == 0).sum()
    assert found.nans == np.isnan(values).sum()
    assert found.infs == np.isinf(values).sum()
    assert found.nonfinite == rows * cols - len(finite)
    assert found.absmax == (np.abs(finite).max() if len(finite) else 0)
    with np.errstate(over="ignore"):
        assert found.sum_of_squares == pytest.approx(float((finite**2).sum()), rel=1e-5)


def test_zero_and_nothing() -> None:
    assert fingerprint(torch.zeros(3, 5)).statistics == Statistics(zeros=15)
    assert fingerprint(torch.empty(0, 5)).statistics == Statistics()
    assert fingerprint(torch.ones(2), statistics=False).statistics is None


def test_parts_add_up() -> None:
    tensor = torch.tensor([[0.0, 3.0], [float("nan"), -4.0]])
    parts = fingerprint(tensor[:1]) + fingerprint(tensor[1:], row_offset=1)
    assert parts.statistics == fingerprint(tensor).statistics == Statistics(4.0, 25.0, 1, 1, 0)
