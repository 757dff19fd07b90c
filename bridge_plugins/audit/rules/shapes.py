"""SHAPE: each tensor has the checkpoint's whole shape."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.names import is_vocabulary, plain
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Shapes:
    """A shard that was not gathered, padding that was left in, on the last stage present.

    Cannot see shards that were glued together in the wrong order: the shape is right (that is HASH's). Packed
    weights (int4 and the like) are judged by nothing here: their shape is the format's.
    """

    code = "SHAPE"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.expected is None:
            return
        for name, record in context.last(summary).records.items():
            source = context.expected.sources.get(plain(name))
            if source is None or record.shape == source.shape or _is_packed(record.dtype, source.dtype):
                continue
            step = "a shard was not gathered, or padding was left in"
            what = f"is {list(record.shape)}, {_whose(context)} has {list(source.shape)}"
            if is_vocabulary(name) and record.shape[1:] == source.shape[1:] and record.shape > source.shape:
                rows = record.shape[0] - source.shape[0]
                what += f": {rows} rows of padded vocabulary were left in"
                step = "cut the padding off before the push: an engine refuses it, or samples from it"
            yield Finding(
                self.code, str(place_of(name)), what, step, (name,),
                expected=str(list(source.shape)), found=str(list(record.shape)),
            )  # fmt: skip


def _whose(context: Context) -> str:
    return "the checkpoint" if context.expected and context.expected.dtypes else "the config"


def _is_packed(found: str, expected: str) -> bool:
    return found != expected and found in ("uint8", "int8", "int32", "float4_e2m1fn_x2")
