"""HASH: before the first step, every tensor is bit for bit the checkpoint's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.names import is_derived, plain
from bridge_plugins.audit.rules.rule import Context
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

LOOKED_INTO = 1 << 30
"""Bytes of the checkpoint that are read, at most, to tell what happened inside of wrong tensors."""


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
            for cause in diagnose(wrong, reference, expected=_at_hand(context.expected))
        ]


def _at_hand(expected: Expected) -> Callable[[str], Tensor | None] | None:
    """The checkpoint's tensors, up to so many bytes: the other ranks wait meanwhile."""
    read, left = expected.tensor, LOOKED_INTO

    def tensor(name: str) -> Tensor | None:
        nonlocal left
        left -= expected.records[name].nbytes
        try:
            return read(name) if read and left >= 0 else None
        except (OSError, UsageError):
            return None  # a folder that has gone explains nothing; what is wrong is told all the same

    return tensor if read else None
