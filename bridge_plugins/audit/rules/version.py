"""VERSION: one label, one set of weights, on every rank."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.label import number
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Version:
    """A label that was given to other weights before, one that counts backwards, ranks that give different ones.

    Speaks of the trainer's side. Which version an engine serves, and whether one that failed is labelled all
    the same, is asked of the engine after a push. Cannot see a label that was skipped.
    """

    code = "VERSION"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        version = summary.header.version
        if apart := [other for other in context.witnesses if other.version != version]:
            labels = ", ".join(sorted({other.version for other in apart})[:3])
            yield Finding(
                self.code, "model", f"ranks call this version {labels}, the first rank calls it {version}",
                "pass every rank the same label: an engine cannot serve two", ranks=tuple(o.rank for o in apart),
                expected=version, found=labels,
            )  # fmt: skip
        if context.previous is None:
            return
        before = context.previous.header.version
        if before == version and context.previous.digest != summary.digest:
            yield Finding(
                self.code, "model", f"the label {version} was given to other weights before",
                "count versions up: replies and caches of both can't be told apart",
                expected="a new label", found=version,
            )  # fmt: skip
        elif (
            (earlier := number(before)) is not None and (now := number(version)) is not None and now < earlier
        ):
            yield Finding(
                self.code, "model", f"version {version} comes after version {before}",
                "right only after going back to a checkpoint", severity="warning",
                expected=f"more than {before}", found=version,
            )  # fmt: skip
