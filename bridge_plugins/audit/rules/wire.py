"""WIRE: what is handed to the transport is what the bridge yielded."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.names import plain
from bridge_plugins.audit.rules.rule import Context
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
        sent = context.wire.records
        yielded = {plain(name): record for name, record in summary.records.items()}
        differ = [
            name
            for name, record in sent.items()
            if name in yielded
            and (record.dtype, record.shape) == (yielded[name].dtype, yielded[name].shape)
            and record.lanes != yielded[name].lanes
        ]
        for layer, names in by_layer(differ).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is', 'are')} sent with other bits than the bridge yielded",
                "it was changed, overwritten or sliced wrongly on its way to the transport", names,
                expected="the bridge's bits", found="other bits",
            )  # fmt: skip
        strided = [name for name, record in sent.items() if not record.contiguous]
        for layer, names in by_layer(strided).items():
            yield Finding(
                self.code, layer, f"{count(names, 'is', 'are')} handed over as a view that does not lie in one piece",
                "a transport that sends the memory as it lies sends other values: make it contiguous", names,
                severity="warning", expected="contiguous", found="strided",
            )  # fmt: skip
