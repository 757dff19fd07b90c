"""COV: layers 0 to L-1 in every stack, experts 0 to E-1 in every layer that has some."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.names import is_prediction
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rules.kept import of_names_alone
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary

Stacks = Mapping[str, set[int]]
Span = tuple[int, int]  #: the first and the last of consecutive numbers


class Coverage:
    """Gaps in the numbers of layers and experts, judged by the names alone.

    Sees a pipeline stage that kept its local numbers (the upper half of the model is absent) and an
    expert-parallel rank that kept its own, in one line each. With an expected set the numbers are those of it;
    without one they count from 0 to the highest seen, so that a tail that never came goes unseen. Cannot see
    two numbers exchanged. Says nothing of a partial export.
    """

    code = "COV"

    @of_names_alone
    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if summary.header.partial:
            return
        came = [*summary.records, *context.unread]
        should = list(context.expected.sources) if context.expected else []
        declared = context.declared
        layers = context.expected.layers if context.expected else 0
        predicts = any(is_prediction(name, layers) for name in came)
        known = [
            name
            for name in should
            if not (declared.is_unmapped(name) or declared.is_frozen(name))
            and (predicts or not is_prediction(name, layers))
        ]
        for what, have, want in (
            ("layers", _layers(came), _layers(known)),
            ("experts", _experts(came), _experts(known)),
        ):
            for stack, numbers in have.items():
                # A stack that the expected set lacks, and a tail that goes on after it, are SET's to judge.
                wanted = _spans(want.get(stack, set())) if known else [(0, max(numbers))]
                missing = _spans(want.get(stack, set()) - numbers) if known else _gaps(numbers)
                if missing:
                    count = sum(last - first + 1 for first, last in wanted)
                    yield Finding(
                        self.code, stack, f"{what} {_said(missing)} of {count} never came",
                        "a local number was taken for a global one: check the offset of stages and the experts of ranks",
                        expected=f"{what} {_said(wanted)}", found=f"{what} {_said(_spans(numbers))}",
                    )  # fmt: skip


def _layers(names: Iterable[str]) -> Stacks:
    found: dict[str, set[int]] = defaultdict(set)
    for name in names:
        place = place_of(name)
        if place.layer_number is not None:
            found[place.stack].add(place.layer_number)
    return found


def _experts(names: Iterable[str]) -> Stacks:
    found: dict[str, set[int]] = defaultdict(set)
    for name in names:
        place = place_of(name)
        if place.expert_number is not None:
            found[place.layer_name].add(place.expert_number)
    return found


def _spans(numbers: Iterable[int]) -> list[Span]:
    spans: list[Span] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1] = (spans[-1][0], number)
        else:
            spans.append((number, number))
    return spans


def _gaps(numbers: Iterable[int]) -> list[Span]:
    """What lies between 0 and the highest and isn't there: not listed one by one, for a name can say any number."""
    ends = [-1, *(last for _, last in _spans(numbers))]
    starts = [first for first, _ in _spans(numbers)]
    return [(end + 1, start - 1) for end, start in zip(ends, starts, strict=False) if end + 1 < start]


def _said(spans: Sequence[Span]) -> str:
    """``0 to 3, 7``."""
    return ", ".join(str(a) if a == b else f"{a} to {b}" for a, b in spans)
