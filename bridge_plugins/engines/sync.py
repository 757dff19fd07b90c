"""One call for one weight version: audit → push → readback → verdict, and the version's label only if it is consistent."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from bridge_plugins.audit import Finding, Summary, WeightAudit, handover
from bridge_plugins.audit.recording import Recording
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.engines.label import label
from bridge_plugins.engines.sglang.buckets import buckets
from bridge_plugins.engines.sglang.client import Engine, PauseMode
from bridge_plugins.engines.sglang.comparison import Comparison
from bridge_plugins.engines.sglang.fleet import Fleet, OnFailure
from bridge_plugins.engines.sglang.push import DEFAULT_BUCKET_BYTES, Pushed, Watch, push
from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.engines.verify import Verified, verify
from bridge_plugins.errors import EngineError, PushError, UsageError
from bridge_plugins.first_rank import on_first_rank
from bridge_plugins.plugins import manager

logger = logging.getLogger(__name__)

Stream = Iterable[tuple[str, Tensor]]


@dataclass(frozen=True)
class Synced:
    """What came of one version: what was sent, what the audit saw, what each engine serves, and the verdict.

    `failed`: by URL, engines that it went on without, and why.
    """

    pushed: Pushed
    summary: Summary
    comparisons: tuple[Comparison, ...]
    verdict: Verdict
    failed: dict[str, str] = field(default_factory=dict)


@dataclass
class WeightSync:
    """Brings versions of one model to engines, and proves that they arrived.

    Args:
        audit: of this rank; every rank has one. If it is strict, each version is exported twice: once to be audited
            alone, and once to be pushed.
        engines: on rank 0 of `group`; empty on the others.
        group: a CPU process group of the ranks that export; None for the default group, if there is one.
        bucket_bytes: how much is sent in one request.
        transport: how the engines get it; None for `FromTensor`.
        on_failure: see `push`. With "roll on" the engines that are consistent get the label without the others.
        pause: how to pause generation for the push. An engine goes on once it has the new label, and stays paused if
            it doesn't get it: what it would sample from is no version.
    """

    audit: WeightAudit
    engines: Sequence[Engine] = ()
    group: Any = None
    bucket_bytes: int = DEFAULT_BUCKET_BYTES
    transport: Transport | None = None
    on_failure: OnFailure = "stop"
    pause: PauseMode | None = None
    _previous: Summary | None = field(default=None, init=False)

    def push(self, export: Stream | Callable[[], Stream], version: str, *, trained: bool = False) -> Synced:
        """Push one version. Every rank must call it, and every rank gets the same verdict.

        Args:
            export: the bridge's stream, as in ``bridge.export_hf_weights(model)``; a function that makes it where it is
                needed twice.
            version: the label that the engines get if everything they serve is what the trainer holds.
            trained: whether an optimizer step was made since the version before.

        Raises:
            VetoError: on every rank, if a hook or a strict audit objects; from a strict audit before a byte is sent.
            PushError: on every rank, if an engine did not take all of it; no engine's version moves.
            EngineError: on every rank, if an engine could not be read back or labelled.
        """
        if self.audit.strict:
            summary, findings = self._audit_alone(export, version, trained)
            wire = Recording()
            handover.listen(wire)
            try:
                pushed = self._push(_stream_of(export))
            finally:
                handover.stop(wire)
            if changed := on_first_rank(
                lambda: _changed(summary, wire) if self.engines else "", self.group, error_type=EngineError
            ):
                raise PushError(changed)
        else:
            pushed = self._push(_stream_of(export), self.audit.watch_buckets)
            summary, findings = self.audit.finish(version, self.group, trained=trained)
        verified, verdict = on_first_rank(
            lambda: self._conclude(pushed, summary, findings), self.group, error_type=EngineError
        )
        return Synced(pushed, summary, verified.comparisons, verdict, verified.failed)

    def _audit_alone(
        self, export: Stream | Callable[[], Stream], version: str, trained: bool
    ) -> tuple[Summary, list[Finding]]:
        if not callable(export) and iter(export) is export:
            raise UsageError(
                "a strict audit needs the export twice, once before anything is sent: "
                "give a function, as in sync.push(lambda: bridge.export_hf_weights(model), version)"
            )
        for _ in self.audit.watch_buckets(buckets(_stream_of(export), self.bucket_bytes)):
            pass
        return self.audit.finish(version, self.group, trained=trained)

    def _push(self, stream: Stream, watch: Watch = iter) -> Pushed:
        return push(
            stream, self.engines, transport=self.transport, bucket_bytes=self.bucket_bytes, group=self.group,
            on_failure=self.on_failure, pause=self.pause, watch=watch,
        )  # fmt: skip

    def _conclude(
        self, pushed: Pushed, summary: Summary, findings: Sequence[Finding]
    ) -> tuple[Verified, Verdict]:
        """Read back, judge, label, and let go on: on the first rank, where the engines are."""
        reached = [engine for engine in self.engines if engine.url not in pushed.failed]
        verified = verify(summary, reached, self._previous)
        if verified.failed and self.on_failure == "stop":
            raise EngineError("; ".join(verified.failed.values()))
        verified = Verified(verified.comparisons, pushed.failed | verified.failed)
        good = self._worthy(reached, verified, verified.verdict(summary, findings), findings)
        unlabelled = label(good, summary.header.version, self.on_failure)
        verified = Verified(verified.comparisons, verified.failed | unlabelled)
        verdict = verified.verdict(summary, findings)
        if good:
            # What was never served whole is no version that an engine can lag behind in.
            self._previous = summary
        if self.pause:
            _go_on([engine for engine in good if engine.url not in unlabelled])
        _tell_sinks(verdict, verified.comparisons)
        return verified, verdict

    def _worthy(
        self, reached: Sequence[Engine], verified: Verified, verdict: Verdict, findings: Sequence[Finding]
    ) -> list[Engine]:
        """The engines that get the label: all or none; with "roll on" each that is consistent itself."""
        if self.on_failure == "stop":
            return list(reached) if verdict.word == "consistent" else []
        consistent = {comparison.engine for comparison in verified.comparisons if comparison.consistent}
        sound = not any(finding.counts for finding in findings) and verdict.tensors
        return [engine for engine in reached if sound and engine.url in consistent]


def _stream_of(export: Stream | Callable[[], Stream]) -> Stream:
    return export() if callable(export) else export


def _changed(audited: Summary, wire: Recording) -> str:
    """How the bytes that left differ from those that were audited, in one line; empty if they don't."""
    sent = wire.take().columns.records()
    both = audited.records.keys() & sent.keys()
    changed = (audited.records.keys() ^ sent.keys()) | {
        name for name in both if sent[name].lanes != audited.records[name].lanes
    }
    if not changed:
        return ""
    return (
        f"version {audited.header.version} gets no label: {len(changed)} tensors ({min(changed)}, …) were pushed with "
        "other bits than were audited before; nothing may train between the two exports"
    )


def _go_on(engines: Sequence[Engine]) -> None:
    fleet = Fleet(engines, "roll on")
    fleet.each("has its new label and could not continue generation", Engine.continue_generation)
    fleet.close()
    if fleet.failed:
        raise EngineError("; ".join(fleet.failed.values()))


def _tell_sinks(verdict: Verdict, comparisons: tuple[Comparison, ...]) -> None:
    try:
        manager().hook.after_push(verdict=verdict, comparisons=comparisons)
    except Exception:
        logger.exception("an after_push hook failed; the run goes on")
