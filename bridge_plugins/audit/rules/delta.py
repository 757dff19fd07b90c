"""DELTA: what moved since the version before, and whether it should have."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Delta:
    """A step after which nothing moved; a move although no step was made.

    Single tensors that stand still are no finding: norms in bfloat16, and experts that saw no token, do so at the
    learning rates of RL.
    """

    code = "DELTA"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.previous is None:
            return
        before = context.previous.records
        moved = [n for n, r in summary.records.items() if n in before and r.lanes != before[n].lanes]
        since = f"version {context.previous.header.version}"
        if context.trained and not moved:
            yield Finding(
                self.code, "model", f"no tensor moved since {since} although the optimizer stepped",
                "the export reads a copy that training does not write", (),
            )  # fmt: skip
        if not context.trained:
            for layer, names in by_layer(moved).items():
                yield Finding(
                    self.code, layer, f"{len(names)} tensors moved since {since} although no step was made",
                    "two exports of one state must be equal: look for a race or a stale cache", names,
                )  # fmt: skip
