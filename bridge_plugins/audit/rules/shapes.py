"""SHAPE and DTYPE: each tensor has the checkpoint's whole shape, and its dtype."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Shapes:
    """A shard that was not gathered, padding that was left in, a cast.

    Cannot see shards that were glued together in the wrong order: the shape is right (that is HASH's).
    """

    code = "SHAPE"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.expected is None:
            return
        for name, record in summary.records.items():
            source = context.expected.sources.get(name)
            if source is None:
                continue
            if tuple(record.shape) != source.shape:
                yield Finding(
                    self.code, str(place_of(name)), f"is {list(record.shape)}, the checkpoint has {list(source.shape)}",
                    "a shard was not gathered, or padding was left in", (name,),
                )  # fmt: skip
            elif record.dtype != source.dtype:
                yield Finding(
                    "DTYPE", str(place_of(name)), f"is {record.dtype}, the checkpoint has {source.dtype}",
                    "a cast on the way loses bits or doubles the bytes", (name,),
                )  # fmt: skip
