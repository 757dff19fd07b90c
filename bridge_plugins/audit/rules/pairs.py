"""PAIR: companions travel together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.names import is_adapter, is_scale, weights_of_scale
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules.kept import of_names_alone
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.schema import Indices, Schema
from bridge_plugins.audit.summary import Summary

#: Tensors that an engine fuses: one without the other leaves half of the fused one as it was.
FUSED = (("q_a_proj", "kv_a_proj_with_mqa"), ("gate_proj", "up_proj"), ("w1", "w3"))
#: Of those, what SGLang fuses within one load call only: two buckets leave what it had, without a word.
ONE_BUCKET = FUSED[:1]

_PARTNER = {one: pair for pair in FUSED for one in pair}
_WORD = re.compile(rf"(.*\.)({'|'.join(_PARTNER)})(\..*)")

Kind = tuple[str, str]


class Pairs:
    """A quantised weight without its scale, a scale without its weight; one of a fused pair alone; a pair that
    the engine joins within one load call, sent in two buckets. On the last stage present.

    Fused pairs are judged where some layer has both, so that models that have but one of the names are left alone.
    Buckets are known on the wire alone. Cannot see whether a scale fits its weight, nor pairs that no engine here
    is known to join. Of a partial export no companion is missing.
    """

    code = "PAIR"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        yield from self._companions(summary, context)
        yield from self._buckets(context.last(summary))

    @of_names_alone
    def _companions(self, summary: Summary, context: Context) -> Iterable[Finding]:
        last = context.last(summary)
        if not last.header.partial:
            yield from self._scales(last.records)
            yield from self._alone(last.records, _fused(last.records))

    def _scales(self, records: dict[str, Record]) -> Iterator[Finding]:
        scales = {name for name in records if is_scale(name)}
        owned = {weight for scale in scales for weight in weights_of_scale(scale)}
        bare = [
            n
            for n, r in records.items()
            if r.dtype.startswith("float8") and n not in owned and n not in scales
        ]
        for layer, names in by_layer(bare).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is quantised and comes', 'are quantised and come')} without a scale",
                "the engine keeps or lacks the scale: outputs are NaN or noise", names,
                expected="weight and scale", found="weight",
            )  # fmt: skip
        for layer, names in by_layer(
            s
            for s in scales
            if s.endswith(("_scale_inv", "weight_scale")) and not records.keys() & weights_of_scale(s)
        ).items():
            yield Finding(
                self.code, layer,
                count(names, "is a scale and comes without its weight", "are scales and come without their weights"),
                "send the weight in the same version", names, expected="weight and scale", found="scale",
            )  # fmt: skip

    def _alone(self, records: dict[str, Record], fused: dict[Kind, set[Kind]]) -> Iterator[Finding]:
        for (one, other), pairs in fused.items():
            if not any(a in records and b in records for a, b in pairs):
                continue
            alone = [b if b in records else a for a, b in pairs if (a in records) != (b in records)]
            for layer, names in by_layer(alone).items():
                yield Finding(
                    self.code, layer, f"{count(names, 'comes', 'come')} alone: an engine fuses {one} and {other}",
                    "the engine keeps the other half as it was", names,
                    expected=f"{one} and {other}", found="one of them",
                )  # fmt: skip

    def _buckets(self, last: Summary) -> Iterator[Finding]:
        came, buckets = last.columns.schema.names, last.columns.bucket
        for (one, other), (these, those) in _sent_as_one(last.columns.schema).items():
            apart = [came[index] for index in these[buckets[these] != buckets[those]].tolist()]
            for layer, names in by_layer(apart).items():
                yield Finding(
                    self.code, layer, f"{one} and {other} are sent in two buckets ({count(names)})",
                    "the engine joins them within one load call: enlarge the buckets, or keep the pair together", names,
                    expected="one bucket", found="two buckets",
                )  # fmt: skip


def _fused(names: Iterable[str]) -> dict[Kind, set[Kind]]:
    """By kind, the pairs of names that a member stands for, whether both came or one."""
    found: dict[Kind, set[Kind]] = defaultdict(set)
    for name in names:
        if fused := _fused_pair(name):
            kind, pair = fused
            found[kind].add(pair)
    return found


@lru_cache(maxsize=4)
def _sent_as_one(schema: Schema) -> dict[Kind, tuple[Indices, Indices]]:
    """By kind, where both of a pair came, what belongs into one bucket: the ones, and the others."""
    index, fused = schema.index, _fused(schema.names)
    found = {}
    for kind in ONE_BUCKET:
        both = [(index[a], index[b]) for a, b in fused.get(kind, ()) if a in index and b in index]
        ones, others = np.array(both, np.int64).reshape(-1, 2).T
        found[kind] = ones, others
    return found


@lru_cache(1 << 17)  # a model's names are asked for version after version
def _fused_pair(name: str) -> tuple[Kind, Kind] | None:
    """The kind of fused pair that a name belongs to, and both names of it."""
    match = _WORD.fullmatch(name)
    if (
        match is None or is_scale(name) or is_adapter(name)
    ):  # a scale goes with its weight; an adapter may be of one half
        return None
    before, word, after = match.groups()
    one, other = _PARTNER[word]
    return (one, other), (f"{before}{one}{after}", f"{before}{other}{after}")
