"""How often corruptions are missed, on a generator scaled down until misses can be counted.

One lane with 8-bit odd keys and 8-bit words, modulo 2^16, stands for 32-bit keys and words modulo 2^64. Keys are
drawn anew for each trial, so a rate is over keys, as the theory's is; the real keys are fixed.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from benchmarks.fingerprint.report import Report
from bridge_plugins.fingerprint.keys import GAMMA, MIX_1, MIX_2

TRIALS = 400_000
SIZE = 4  # rows and columns
BITS = 7  # of an odd 8-bit key that are free

Matrix = NDArray[np.int64]  # trials × rows × columns


def run(report: Report) -> None:
    """One table: rates measured, and what the theory says of them."""
    generator = np.random.default_rng(0)
    table = report.table("Misses of one scaled-down lane (8-bit keys, modulo 2^16)", "the theory's rate")
    for what, difference, theory in cases():
        rate = miss_rate(difference, generator)
        spread = math.sqrt(max(theory * (1 - theory), 1 / TRIALS) / TRIALS)
        ratio = rate / theory if theory else None
        note = f"theory {theory:.3g}, {abs(rate - theory) / spread:.1f} standard deviations off"
        table.add(what, rate, "missed", ratio, note)
    rate = miss_rate(_transposed, generator, one_stream=True)
    table.add("transpose, if one stream keyed rows and columns", rate, "missed", None, "why there are four")


def cases() -> list[tuple[str, Callable[[np.random.Generator], Matrix], float]]:
    """Corruptions as what they add to each word, and the rate at which that should go unseen.

    A difference or a sum of two odd keys is twice a number of BITS bits. Of n-bit numbers x, y a product x·y is
    0 modulo 2^n for (n + 2) / 2^(n + 1) of all pairs.
    """
    n = BITS
    return [
        ("one bit", _one_bit, 0.0),
        ("random words in one row", _one_row, 2.0**-16),
        ("signs of a pair in a row, to opposite sides", _pair, 2.0**-n),
        ("two rows exchanged", _rows_exchanged, 2.0**-n + n * 2.0 ** -(2 * n + 2)),
        ("signs of a rectangle (the worst case)", _rectangle, (n + 2) / 2.0 ** (n + 1)),
    ]


def miss_rate(
    difference: Callable[[np.random.Generator], Matrix],
    generator: np.random.Generator,
    *,
    one_stream: bool = False,
) -> float:
    """The part of trials in which Σ R·C·difference is 0 modulo 2^16, of those with a difference."""
    delta = difference(generator)
    rows = _keys(generator)
    cols = rows if one_stream else _keys(generator)
    change = (rows[:, :, None] * cols[:, None, :] * delta).sum((1, 2)) % 2**16
    changed = (delta != 0).any((1, 2))
    return float((change[changed] == 0).mean())


def _keys(generator: np.random.Generator) -> NDArray[np.int64]:
    """The top 8 bits of splitmix64(seed + index), made odd, for a random seed in each trial."""
    seeds = generator.integers(0, 2**64, (TRIALS, 1), np.uint64)
    z = seeds + np.arange(SIZE, dtype=np.uint64) + np.uint64(GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(56)) | np.uint64(1)).astype(np.int64)


def _words(generator: np.random.Generator) -> Matrix:
    return generator.integers(0, 256, (TRIALS, SIZE, SIZE))


def _nothing() -> Matrix:
    return np.zeros((TRIALS, SIZE, SIZE), np.int64)


def _one_bit(generator: np.random.Generator) -> Matrix:
    delta = _nothing()
    delta[:, 1, 2] = 1 << generator.integers(0, 8, TRIALS)
    return delta


def _one_row(generator: np.random.Generator) -> Matrix:
    delta = _nothing()
    delta[:, 1] = generator.integers(-255, 256, (TRIALS, SIZE))
    return delta


def _pair(_generator: np.random.Generator) -> Matrix:
    delta = _nothing()
    delta[:, 1, 0], delta[:, 1, 2] = 128, -128
    return delta


def _rows_exchanged(generator: np.random.Generator) -> Matrix:
    words = _words(generator)
    delta = _nothing()
    delta[:, 0], delta[:, 2] = words[:, 2] - words[:, 0], words[:, 0] - words[:, 2]
    return delta


def _rectangle(generator: np.random.Generator) -> Matrix:
    """Signs that factor into rows × columns, to either side: 128 · (±R ± R') · (±C ± C')."""
    delta = _nothing()
    down, across = 1 - 2 * generator.integers(0, 2, (2, TRIALS))
    delta[:, 0, 1], delta[:, 0, 3] = 128, 128 * across
    delta[:, 2, 1], delta[:, 2, 3] = 128 * down, 128 * down * across
    return delta


def _transposed(generator: np.random.Generator) -> Matrix:
    words = _words(generator)
    return words.transpose(0, 2, 1) - words
