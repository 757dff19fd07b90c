"""DELTA: what moved since the version before, and whether it should have."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.columns import differing
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.schema import positions
from bridge_plugins.audit.summary import Summary


class Delta:
    """A step after which nothing moved; a move although no step was made; a frozen tensor that moved.

    Single tensors that stand still are no finding but a count: norms in bfloat16, and experts that saw no token, do
    so at the learning rates of RL. Cannot see how far anything moved, nor whether in the right direction; if
    nobody says whether a step was made, only frozen tensors are judged.
    """

    code = "DELTA"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.previous is None:
            return
        now, before = summary.columns, context.previous.columns
        at = positions(now.schema, before.schema)
        both = now.where(at >= 0)
        moved = now.where(differing(now, before, at))
        still = len(both) - len(moved)
        frozen: set[str] = set()
        if context.declared.frozen:
            frozen = {name for name in moved if context.declared.is_frozen(name)}
            still = len([name for name in both if not context.declared.is_frozen(name)]) - len(moved)
        since = f"version {context.previous.header.version}"
        for layer, names in by_layer(frozen).items():
            yield Finding(
                self.code, layer, f"{count(names)} moved since {since} although declared frozen",
                "adapters merged into the base, or an optimizer that has these parameters", names,
                expected="the same bits", found="other bits",
            )  # fmt: skip
        if context.trained and both and not moved:
            yield Finding(
                self.code, "model", f"no tensor moved since {since} although the optimizer stepped",
                "the export reads a copy that training does not write",
                expected="some moved", found="none moved",
            )  # fmt: skip
        elif context.trained is False:
            for layer, names in by_layer(name for name in moved if name not in frozen).items():
                yield Finding(
                    self.code, layer, f"{len(names)} tensors moved since {since} although no step was made",
                    "two exports of one state must be equal: look for a race or a stale cache", names,
                    expected="the same bits", found="other bits",
                )  # fmt: skip
        elif moved and still > 0:
            yield Finding(
                self.code, "model", f"{still} of {len(both)} tensors have the bits of {since}",
                "usual for bfloat16 norms and for experts without tokens", severity="info",
            )  # fmt: skip
