"""WIRE: what is handed to the transport is what the bridge yielded."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from bridge_plugins.audit.columns import differing
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.schema import Indices, Schema, plain_positions
from bridge_plugins.audit.summary import Summary


class Wire:
    """A tensor whose bits changed between the bridge and the transport, name by name.

    Sees a buffer that was overwritten before it was sent, a wrong slice of a bucket, a view whose strides the
    transport ignores (it is fingerprinted as the transport reads it). What a framework changes on purpose is not
    compared: names that it renames or drops (SET judges those), padding that it cuts off, casts and quantisation
    (SHAPE, DTYPE, PAIR). Cannot see what happens after the hand-over (READBACK).
    """

    code = "WIRE"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.wire is None or summary.header.stage != "hf":
            return
        sent, yielded = context.wire.columns, summary.columns
        differ = sent.where(differing(sent, yielded, _comparable(sent.schema, yielded.schema)))
        for layer, names in by_layer(differ).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is', 'are')} sent with other bits than the bridge yielded",
                "it was changed, overwritten or sliced wrongly on its way to the transport", names,
                expected="the bridge's bits", found="other bits",
            )  # fmt: skip
        strided = sent.where(~sent.contiguous)
        for layer, names in by_layer(strided).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is', 'are')} handed over as a view that does not lie in one piece",
                "a transport that sends the memory as it lies sends other values: make it contiguous", names,
                severity="warning", expected="contiguous", found="strided",
            )  # fmt: skip


@lru_cache(maxsize=4)
def _comparable(sent: Schema, yielded: Schema) -> Indices:
    """Of each tensor that was sent its index among those yielded; -1 without one of that name, dtype and shape."""
    at = plain_positions(sent, yielded)
    facts = zip(at.tolist(), sent.dtypes, sent.shapes, strict=True)
    same = [
        there >= 0 and (dtype, shape) == (yielded.dtypes[there], yielded.shapes[there])
        for there, dtype, shape in facts
    ]
    return np.where(same, at, -1)
