# ruff: noqa: N803 — constexpr parameters are written in capitals, as in Triton's own kernels
"""Keys inside a kernel: `fingerprint.keys`, vectorised."""

from __future__ import annotations

import triton.language as tl

from bridge_plugins.fingerprint import keys
from bridge_plugins.fingerprint.cuda.jit import kernel

_GAMMA = tl.constexpr(keys.GAMMA)
_MIX_1 = tl.constexpr(keys.MIX_1)
_MIX_2 = tl.constexpr(keys.MIX_2)
ROW_0 = tl.constexpr(keys.SEEDS[0][keys.ROW])
ROW_1 = tl.constexpr(keys.SEEDS[1][keys.ROW])
COL_0 = tl.constexpr(keys.SEEDS[0][keys.COL])
COL_1 = tl.constexpr(keys.SEEDS[1][keys.COL])


@kernel()
def key(index: tl.tensor, SEED: tl.constexpr) -> tl.tensor:
    """Keys of an int64 tensor of indices in the stream of a seed: odd, below 2**32, as uint64."""
    z = index.to(tl.uint64) + SEED + _GAMMA
    z = (z ^ (z >> 30)) * _MIX_1
    z = (z ^ (z >> 27)) * _MIX_2
    z = z ^ (z >> 31)
    return (z >> 32) | 1
