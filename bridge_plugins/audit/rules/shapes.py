"""SHAPE: each tensor has the checkpoint's whole shape."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from bridge_plugins.audit.causes.wording import kind
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import are, at
from bridge_plugins.audit.names import is_derived, is_vocabulary, plain
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rules.kept import of_names_alone
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary

Shape = tuple[int, ...]


class Shapes:
    """A shard that was not gathered, padding that was left in, on the last stage present.

    Tensors of one kind with one fault are told together, over all layers and experts.
    Cannot see shards that were glued together in the wrong order: the shape is right (that is HASH's). Packed
    weights (int4 and the like) are judged by nothing here: their shape is the format's.
    """

    code = "SHAPE"

    @of_names_alone
    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.expected is None:
            return
        alike: dict[tuple[str, Shape, Shape], list[str]] = defaultdict(list)
        for name, record in context.last(summary).records.items():
            source = context.expected.sources.get(plain(name))
            if source is None or record.shape == source.shape or _is_packed(record.dtype, source.dtype):
                continue
            if is_derived(name):  # made anew by whoever needs it, as long as he likes
                continue
            alike[kind(place_of(name)), record.shape, source.shape].append(name)
        for (_, found, should), names in alike.items():
            step = "a shard was not gathered, or padding was left in"
            what = f"{are(names)} {list(found)}, {_whose(context)} has {list(should)}"
            if is_vocabulary(names[0]) and found[1:] == should[1:] and found > should:
                what += f": {found[0] - should[0]} rows of padded vocabulary were left in"
                step = "cut the padding off before the push: an engine refuses it, or samples from it"
            yield Finding(
                self.code, at(names), what, step, tuple(names), expected=str(list(should)), found=str(list(found)),
            )  # fmt: skip


def _whose(context: Context) -> str:
    return "the checkpoint" if context.expected and context.expected.dtypes else "the config"


def _is_packed(found: str, expected: str) -> bool:
    return found != expected and found in ("uint8", "int8", "int32", "float4_e2m1fn_x2")
