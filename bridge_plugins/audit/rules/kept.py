"""Rules that look at names, dtypes and shapes alone: what they find holds for as long as those are the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary

Self = TypeVar("Self")
Check = Callable[[Self, Summary, Context], Iterable[Finding]]


def of_names_alone(check: Check[Self]) -> Check[Self]:
    """A check that is made anew only if the names, dtypes and shapes are others, or what they are held against.

    It may look at the schemas and at `partial` and `stage` of the summary and of the last stage, at what is expected and
    declared, and at the names that could not be read: not at bits, statistics, buckets or another version.
    """
    kept: deque[tuple[object, list[Finding]]] = deque(maxlen=2)  # with a wire, and without

    @wraps(check)
    def checked(self: Self, summary: Summary, context: Context) -> Iterable[Finding]:
        stages = summary, context.last(summary)
        seen = (
            *((one.columns.schema, one.header.partial, one.header.stage) for one in stages),
            (context.expected, context.declared, tuple(context.unread)),
        )
        for before, findings in kept:
            if before == seen:
                return findings
        found = list(check(self, summary, context))
        kept.append((seen, found))
        return found

    return checked
