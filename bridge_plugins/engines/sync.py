"""One call for one weight version: audit → push → readback → verdict, and the version's label only if it is consistent."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.engines.first_rank import on_first_rank
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.push import DEFAULT_BUCKET_BYTES, Pushed, push
from bridge_plugins.engines.sglang.readback import Comparison, compare, read_back


@dataclass(frozen=True)
class Synced:
    """What came of one version: what was sent, what the audit saw, what each engine serves, and the verdict."""

    pushed: Pushed
    summary: Summary
    comparisons: tuple[Comparison, ...]
    verdict: Verdict


@dataclass
class WeightSync:
    """Brings versions of one model to engines, and proves that they arrived.

    Args:
        audit: of this rank; every rank has one.
        engines: on rank 0 of `group`; empty on the others.
        group: a CPU process group of the ranks that export; None for the default group, if there is one.
        bucket_bytes: how much is sent in one request.
    """

    audit: WeightAudit
    engines: Sequence[Engine] = ()
    group: Any = None
    bucket_bytes: int = DEFAULT_BUCKET_BYTES
    _previous: Summary | None = field(default=None, init=False)

    def push(self, stream: Iterable[tuple[str, Tensor]], version: str, *, trained: bool = False) -> Synced:
        """Push one version. Every rank must call it, and every rank gets the same verdict.

        Args:
            stream: the bridge's export, as in ``bridge.export_hf_weights(model)``.
            version: the label that the engines get if everything they serve is what the trainer holds.
            trained: whether an optimizer step was made since the version before.

        Raises:
            PushError: on every rank, if an engine did not take all of it; no engine's version moves.
            EngineError: on every rank, if an engine could not be read back or labelled.
        """
        pushed = push(
            self.audit.watch(stream), self.engines, bucket_bytes=self.bucket_bytes, group=self.group
        )
        summary, findings = self.audit.finish(version, self.group, trained=trained)
        comparisons = on_first_rank(lambda: self._read_back(summary), self.group)
        verdict = Verdict.of(
            summary,
            [*findings, *(finding for comparison in comparisons for finding in comparison.findings)],
            engines=len(comparisons),
            mismatched=sum(len(comparison.mismatched) for comparison in comparisons),
            not_compared=sum(len(comparison.not_compared) for comparison in comparisons),
        )
        if verdict.word == "consistent":
            # What was never served whole is no version that an engine can lag behind in.
            self._previous = summary
            on_first_rank(lambda: self._label(version), self.group)
        return Synced(pushed, summary, comparisons, verdict)

    def _read_back(self, summary: Summary) -> tuple[Comparison, ...]:
        return tuple(
            compare(summary, engine.url, read_back(engine, summary), self._previous)
            for engine in self.engines
        )

    def _label(self, version: str) -> None:
        for engine in self.engines:
            engine.set_weight_version(version)
