"""What a broken rule says, and which settings near by would not break it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple


class Violation(NamedTuple):
    """A rule that a topology breaks: the rule, the numbers that break it, and settings that work."""

    rule: str
    numbers: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.numbers}; try {self.remedy}"


def nearest(name: str, size: int, works: Callable[[int], bool], most: int) -> str:
    """``TP=2 or TP=4``: the nearest sizes from 1 to `most`, below and above `size`, that work. 1 must."""
    below = next(n for n in range(min(size - 1, most), 0, -1) if works(n)) if size > 1 else None
    above = next((n for n in range(size + 1, most + 1) if works(n)), None)
    return " or ".join(f"{name}={n}" for n in (below, above) if n is not None)


def divides(rule: str, name: str, size: int, whole: int, of: str) -> Iterator[Violation]:
    """`size` must divide `whole`, of which there are as many as `of` says."""
    if whole % size:
        remedy = nearest(name, size, lambda n: whole % n == 0, most=whole)
        yield Violation(f"a parallel size divides {rule}", f"{name}={size}, {of}={whole}", remedy)
