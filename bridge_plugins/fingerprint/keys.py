"""The keys of the fingerprint: odd 32-bit numbers from four independent streams (lane × axis).

A key is the high half of splitmix64(seed[lane][axis] + index), made odd. The generator is Steele, Lea and
Flood's SplitMix64 ("Fast splittable pseudorandom number generators", OOPSLA 2014) with Vigna's constants.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = 1
"""Version of the fingerprint's definition. Any change to keys, words or lanes makes a new one."""

LANES: Final = 2
ROW: Final = 0
COL: Final = 1

MASK64: Final = 2**64 - 1

GAMMA: Final = 0x9E3779B97F4A7C15
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB

# The first 256 bits of pi's fraction: numbers that nobody chose.
SEEDS: Final = (
    (0x243F6A8885A308D3, 0x13198A2E03707344),  # lane 0: rows, columns
    (0xA4093822299F31D0, 0x082EFA98EC4E6C89),  # lane 1: rows, columns
)


def splitmix64(x: int) -> int:
    """One output of SplitMix64 for the state `x`, below 2**64."""
    z = (x + GAMMA) & MASK64
    z = ((z ^ (z >> 30)) * MIX_1) & MASK64
    z = ((z ^ (z >> 27)) * MIX_2) & MASK64
    return z ^ (z >> 31)


def key(lane: int, axis: int, index: int) -> int:
    """The key of row `index` (axis ROW) or of word `index` of a row (axis COL): odd, below 2**32."""
    return (splitmix64((SEEDS[lane][axis] + index) & MASK64) >> 32) | 1


def signed(x: int) -> int:
    """The two's complement reading of `x` < 2**64: what torch's int64 holds for the same bits."""
    return x - 2**64 if x >= 2**63 else x
