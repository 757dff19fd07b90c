"""SET and UNIQ: the names that came are the names that should come, each once."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Names:
    """Missing, unexpected and repeated names.

    Sees a layer, an expert or a buffer that never came, and one that came under another's name if that left a gap.
    Cannot see two layers exchanged: the names are all there (that is HASH's).
    """

    code = "SET"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        for layer, names in by_layer(context.repeated).items():
            yield Finding(
                "UNIQ", layer, f"{_count(names)} came more than once in one stream",
                "two ranks or stages own one global name: check the layer offset and the expert numbers", names,
            )  # fmt: skip
        if context.expected is None:
            return
        came, should = set(summary.records), set(context.expected.sources)
        for layer, names in by_layer(should - came).items():
            yield Finding(
                self.code, layer, f"{_count(names)} of {context.expected.origin} never came",
                "the engine keeps what it had: do not push", names,
            )  # fmt: skip
        for layer, names in by_layer(came - should).items():
            yield Finding(
                self.code, layer, f"{_count(names)} came that the checkpoint does not have",
                "compare the bridge's mapping with the checkpoint's index", names,
            )  # fmt: skip


def _count(names: tuple[str, ...]) -> str:
    return f"{names[0]}" if len(names) == 1 else f"{len(names)} tensors ({names[0]}, …)"
