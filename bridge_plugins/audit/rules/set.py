"""SET: the names that leave are the names that should."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.names import (
    is_adapter,
    is_derived,
    is_embedding,
    is_output_layer,
    is_prediction,
    is_scale,
    owners_of_adapter,
    plain,
    weights_of_scale,
)
from bridge_plugins.audit.rules.kept import of_names_alone
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class NameSet:
    """Missing and unexpected names, on the last stage present.

    Sees a layer, an expert or a buffer that never came, and one that came under another's name if that left a gap.
    Cannot see two layers exchanged: the names are all there (that is HASH's). Derived buffers, tied output layers,
    scales beside quantised weights, adapters of weights and declared unmapped names are neither missing nor unexpected. Of
    a partial export nothing is missing.
    """

    code = "SET"

    @of_names_alone
    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        expected, declared = context.expected, context.declared
        if expected is None:
            return
        last = context.last(summary)
        came = {
            plain(name) if last.header.stage == "hf" else name for name in (*last.records, *context.unread)
        }
        should = set(expected.sources)
        ignored = {n for n in came | should if is_derived(n) or declared.is_unmapped(n)}
        missing = should - came - ignored
        unexpected = came - should - ignored
        if expected.tied:
            missing = {n for n in missing if not is_output_layer(n)}
            unexpected = {n for n in unexpected if not is_output_layer(n)}
        adapters = {n for n in unexpected if is_adapter(n)}
        unexpected = {
            n for n in unexpected - adapters if not (is_scale(n) and should & set(weights_of_scale(n)))
        }
        if wrapped := tuple(sorted(n for n in unexpected if plain(n) in missing)):
            missing -= set(map(plain, wrapped))
            unexpected -= set(wrapped)
            yield Finding(
                self.code, "model", f"{count(wrapped)} came as parts of layers with adapters",
                "an engine's loader skips such names: take '.base_layer' out of them before they are sent", wrapped,
                expected=plain(wrapped[0]), found=wrapped[0],
            )  # fmt: skip
        if not last.header.partial:
            yield from self._missing(missing, came, expected, context)
        for layer, names in by_layer(unexpected).items():
            yield Finding(
                self.code, layer, f"{count(names)} came that {expected.origin} does not have",
                "compare the bridge's mapping with the checkpoint's index", names,
                expected="absent", found="present",
            )  # fmt: skip
        yield from self._strange(adapters, should, expected)

    def _strange(self, adapters: set[str], should: set[str], expected: Expected) -> Iterable[Finding]:
        if any(
            is_adapter(name) for name in should
        ):  # adapters of a version before: no checkpoint to hold them against
            return
        strange = [n for n in adapters if (owners := owners_of_adapter(n)) and should.isdisjoint(owners)]
        for layer, names in by_layer(strange).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is an adapter', 'are adapters')} of what {expected.origin} does not have",
                "an engine that finds adapters by the checkpoint's names refuses or skips it: export them one by one", names,
                severity="warning", expected="an adapter of a weight", found="an adapter of none",
            )  # fmt: skip

    def _missing(
        self, missing: set[str], came: set[str], expected: Expected, context: Context
    ) -> Iterable[Finding]:
        prediction = {n for n in expected.sources if is_prediction(n, expected.layers)}
        if prediction and not prediction & came:
            missing = missing - prediction
            yield Finding(
                self.code, "model", f"none of the {len(prediction)} multi-token prediction tensors is sent",
                "right if the trainer has no MTP layers; a draft model on the engine keeps what it was loaded with",
                severity="info",
            )  # fmt: skip
        if frozen := {n for n in missing if context.declared.is_frozen(n)}:
            missing = missing - frozen
            yield Finding(
                self.code, "model", f"{len(frozen)} tensors that are declared frozen are not sent",
                "right as long as the engine has never released its weights", severity="info",
            )  # fmt: skip
        scales = {n for n in missing if is_scale(n) and came & set(weights_of_scale(n))}
        if scales:
            missing = missing - scales
            yield Finding(
                self.code, "model", f"weights of {expected.origin} are sent without {len(scales)} of their scales",
                "an engine that was loaded quantised needs them", tuple(sorted(scales)),
                expected="weight and scale", found="weight",
            )  # fmt: skip
        for layer, names in by_layer(missing).items():
            yield Finding(
                self.code, layer, f"{count(names)} of {expected.origin} never came",
                "the engine keeps what it had: do not push", names, expected="present", found="absent",
            )  # fmt: skip


def is_tied_pair(one: str, other: str) -> bool:
    """Whether two names are a tied model's embedding and output layer."""
    return (is_embedding(one) and is_output_layer(other)) or (is_embedding(other) and is_output_layer(one))
