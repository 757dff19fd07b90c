"""STATS: values that no weight should have."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Stats:
    """NaN and infinite elements. Cannot see finite values that are wrong."""

    code = "STATS"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:  # noqa: ARG002
        for name, record in summary.records.items():
            if record.nonfinite:
                yield Finding(
                    self.code, str(place_of(name)), f"{record.nonfinite} elements are NaN or infinite",
                    "the optimizer diverged, or the tensor was read before it was written", (name,),
                )  # fmt: skip
