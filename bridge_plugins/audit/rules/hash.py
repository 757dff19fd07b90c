"""HASH: before the first step, every tensor is bit for bit the checkpoint's."""

from __future__ import annotations

from collections.abc import Iterable

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.names import is_derived, plain
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary


class Hash:
    """A wrong layer, a wrong expert, shards in the wrong order, gate and up exchanged: any wrong bit.

    A tensor of another dtype or shape than the checkpoint's has other bits for that alone: DTYPE and SHAPE judge it.
    Speaks only of the version that was loaded and not yet trained: afterwards there is nothing to compare with, and
    a fault that began later is READBACK's or the next load's. Cannot see an import that is wrong in the same way as
    the export.
    """

    code = "HASH"

    def check(self, summary: Summary, context: Context) -> Iterable[Finding]:
        if context.expected is None or context.trained or context.previous is not None:
            return []
        reference = context.expected.records
        wrong = {
            name: record
            for name, record in ((plain(name), record) for name, record in summary.records.items())
            if name in reference
            and (record.dtype, record.shape) == (reference[name].dtype, reference[name].shape)
            and record.lanes != reference[name].lanes
            and not is_derived(name)
        }
        step = "the export is wrong: no step was made since the checkpoint was loaded"
        return [
            Finding(
                self.code,
                cause.where,
                cause.what,
                step,
                cause.names,
                expected="the checkpoint's bits",
                found="other bits",
            )
            for cause in diagnose(wrong, reference)
        ]
