"""Numbers that got other numbers' weights: exchanged, shifted, rotated, interleaved, or in any other order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridge_plugins.audit.causes.wording import numbered, ranges

_SENTENCES = 3  #: more shifts than this at once are one permutation
_SHOWN = 4


class Renumbering(NamedTuple):
    """A sentence in two halves, and the numbers that it explains."""

    numbers: tuple[int, ...]
    subject: str
    predicate: str


def renumbered(source: Mapping[int, int], total: int, noun: str) -> Iterator[Renumbering]:
    """Sentences for "number n carries the weights of number source[n]".

    Args:
        source: for each number that is wrong, whose weights it carries; never its own.
        total: how many numbers there are, from 0 on.
        noun: ``layer`` or ``expert``.
    """
    everything = tuple(sorted(source))
    subject = numbered(noun, everything)
    if rotation := _rotation(source, total):
        what = f"{noun} n carries the weights of {noun} (n + {rotation}) mod {total}"
        yield Renumbering(everything, subject, f"are rotated: {what}")
        return
    if ways := _interleaved(source, total):
        what = f"{noun} n carries the weights of {noun} (n mod {ways})·{total // ways} + n div {ways}"
        yield Renumbering(everything, subject, f"are interleaved: {what}")
        return
    shifts: dict[tuple[int, bool], list[int]] = defaultdict(list)
    for number, other in source.items():
        mutual = source.get(other) == number
        shifts[abs(other - number) if mutual else other - number, mutual].append(number)
    if len(shifts) > _SENTENCES:
        some = ", ".join(f"{number} has {source[number]}'s" for number in everything[:_SHOWN])
        yield Renumbering(everything, subject, f"carry other {noun}s' weights: {some}, …")
        return
    for (shift, mutual), members in shifts.items():
        numbers = tuple(sorted(members))
        if mutual:
            low = [number for number in numbers if source[number] > number]
            high = ranges(number + shift for number in low)
            yield Renumbering(numbers, f"{noun}s {ranges(low)} and {high}", "are exchanged")
        else:
            verb = "carries" if len(numbers) == 1 else "carry"
            others = numbered(noun, (number + shift for number in numbers))
            yield Renumbering(numbers, numbered(noun, numbers), f"{verb} the weights of {others}")


def _rotation(source: Mapping[int, int], total: int) -> int:
    """By how much all numbers are rotated; 0 if they aren't, or if that is a plain exchange."""
    if total < 3 or source.keys() != set(range(total)):
        return 0
    steps = {(other - number) % total for number, other in source.items()}
    return steps.pop() if len(steps) == 1 and 2 * min(steps) != total else 0


def _interleaved(source: Mapping[int, int], total: int) -> int:
    """Over how many ranks the numbers are dealt out like cards; 0 if they aren't."""
    for ways in range(2, total):
        if total % ways == 0 and total > 4:
            dealt = {n: (n % ways) * (total // ways) + n // ways for n in range(total)}
            if {n: other for n, other in dealt.items() if n != other} == source:
                return ways
    return 0
