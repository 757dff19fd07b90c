"""The fingerprint's keys as arrays: what is said of tensors that aren't at hand is worked out from keys alone."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.fingerprint.keys import GAMMA, MASK64, MIX_1, MIX_2, SEEDS

Keys = NDArray[np.uint64]


@lru_cache(64)
def first_keys(lane: int, axis: int, count: int) -> Keys:
    """The first `count` keys of an axis, as `fingerprint.keys.key` gives them one by one."""
    z = np.arange(count, dtype=np.uint64) + np.uint64((SEEDS[lane][axis] + GAMMA) & MASK64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(MIX_2)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(32)) | np.uint64(1)
