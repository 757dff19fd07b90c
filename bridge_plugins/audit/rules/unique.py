"""UNIQ: every name comes once."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Unique:
    """A name that comes more than once in one stream, or that is sent more than once with different bits.

    Sees two stages or ranks that both call a parameter by one global name, and two files of ranks that disagree.
    Cannot see a name that is used once for the wrong tensor (HASH), nor what the bridge itself overwrote before it
    yielded (then a name is missing: SET, COV). A transport that repeats a name with the same bits is no finding.
    """

    code = "UNIQ"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:  # noqa: ARG002
        step = "two ranks or stages own one global name: check the layer offset and the expert numbers"
        for layer, names in by_layer(context.repeated).items():
            yield Finding(
                self.code, layer, f"{count(names)} came more than once in one stream", step, names,
                expected="once", found="more than once",
            )  # fmt: skip
        for layer, names in by_layer(context.conflicting).items():
            yield Finding(
                self.code, layer, f"{count(names, 'was', 'were')} sent more than once with different bits", step, names,
                expected="the same bits", found="different bits",
            )  # fmt: skip
