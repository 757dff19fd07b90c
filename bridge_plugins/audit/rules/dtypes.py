"""DTYPE: no cast on the way loses bits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import are, at
from bridge_plugins.audit.names import is_derived, is_often_wide, plain
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules.kept import of_names_alone
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary

# (bits of the significand, bits of the exponent): a cast loses nothing if neither shrinks.
_BITS = {
    "float64": (52, 11), "float32": (23, 8), "float16": (10, 5), "bfloat16": (7, 8),
    "float8_e4m3fn": (3, 4), "float8_e5m2": (2, 5),
}  # fmt: skip


class Dtypes:
    """A tensor in another dtype than was declared for it, or than the checkpoint has, yielded or sent.

    A declared dtype must be met exactly: that is how a router trained in float32 and sent as bfloat16 is seen.
    Without a declaration a narrower dtype is an error. A wider one loses nothing: it is allowed for what trainers
    keep wide (routers, expert biases, norms, A_log) and told once, as information, for the rest. A weight that
    comes quantised with its scale is PAIR's. Cannot see a tensor that was cast down and up again.
    """

    code = "DTYPE"

    @of_names_alone
    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        wider: dict[tuple[str, str], list[str]] = defaultdict(list)
        wrong: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        last = context.last(summary)
        yielded: dict[str, str] = {}
        sent: list[Record] = []
        if last is not summary:
            yielded = {plain(name): record.dtype for name, record in summary.records.items()}
            sent = [
                record for name, record in last.records.items() if record.dtype != yielded.get(plain(name))
            ]
        for record in (*summary.records.values(), *sent):
            name = record.name
            declared = context.declared.dtype(name)
            source = context.expected.sources.get(plain(name)) if context.expected else None
            want = declared or (
                source.dtype if source and context.expected and context.expected.dtypes else ""
            )
            if not want or record.dtype == want or (not declared and is_derived(name)):
                continue
            if not declared and is_wider(record.dtype, want):
                if not is_often_wide(name):
                    wider[(record.dtype, want)].append(name)
            elif declared or not _is_quantised(name, record.dtype, last):
                whose = "is declared as" if declared else "the checkpoint has"
                wrong[(record.dtype, whose, want)].append(name)
        for (found, whose, want), names in wrong.items():
            if len(names) > 1:
                whose = whose.replace("is declared", "are declared")
            yield Finding(
                self.code, at(names), f"{are(names)} {found}, {whose} {want}",
                "a cast on the way loses bits", tuple(names), expected=want, found=found,
            )  # fmt: skip
        for (found, was), names in _narrowed(sent, yielded, last).items():
            yield Finding(
                self.code, "model", f"{len(names)} tensors are yielded as {was} and sent as {found}",
                "once they were trained, the cast loses bits: a router's choices change; declare what must stay wide",
                tuple(names), severity="info", expected=was, found=found,
            )  # fmt: skip
        for (found, want), names in wider.items():
            yield Finding(
                self.code, "model", f"{len(names)} tensors are {found}, the checkpoint has {want}",
                "nothing is lost, but more bytes travel, and an engine that holds less rounds them",
                tuple(names), severity="info", expected=want, found=found,
            )  # fmt: skip


def _narrowed(
    sent: Iterable[Record], yielded: Mapping[str, str], last: Summary
) -> dict[tuple[str, str], list[str]]:
    """(dtype, the bridge's wider one) → what was cast between the bridge and the transport, and not quantised."""
    narrowed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for record in sent:
        was = yielded.get(plain(record.name), record.dtype)
        if (
            was in _BITS
            and not is_wider(record.dtype, was)
            and not _is_quantised(record.name, record.dtype, last)
        ):
            narrowed[(record.dtype, was)].append(record.name)
    return narrowed


def is_wider(found: str, expected: str) -> bool:
    """Whether a cast from dtype `expected` to `found` loses no bit, whatever the values; False if one is no float."""
    if found not in _BITS or expected not in _BITS:
        return False
    return all(have >= need for have, need in zip(_BITS[found], _BITS[expected], strict=True))


def _is_quantised(name: str, dtype: str, summary: Summary) -> bool:
    stem = name.removesuffix(".weight")
    scales = (f"{name}_scale_inv", f"{name}_scale", f"{stem}.scale", f"{stem}.scales", f"{stem}_scale")
    narrow = dtype.startswith(("float8", "float4", "int", "uint"))
    return narrow and any(scale in summary.records for scale in scales)
