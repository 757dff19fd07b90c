"""What a rule is, and what it may know beside the summary."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.summary import Summary


@dataclass(frozen=True)
class Context:
    """What a summary is judged against.

    `repeated` names tensors that came more than once in the stream. `trained` says whether an optimizer step was
    made since `previous` (or since the checkpoint was loaded, if there is no previous version).
    """

    expected: Expected | None = None
    previous: Summary | None = None
    trained: bool = False
    repeated: tuple[str, ...] = ()


class Rule(Protocol):
    """A rule by its code, as findings carry it. Its docstring says what it can and cannot see."""

    code: str

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        """The findings of one version; none if it is clean or the rule has nothing to judge by."""
