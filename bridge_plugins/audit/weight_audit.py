"""The audit of a stream: every item is handed on as it came, and a record of it is kept."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch.distributed as dist

from bridge_plugins.audit import agreement, handover, nesting
from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.expected import Expected
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.judge import judge, tell_sinks
from bridge_plugins.audit.recording import Recording, Taken
from bridge_plugins.audit.rules import Context, Rule, choose
from bridge_plugins.audit.summary import Header, Summary, package_versions, summarize_columns
from bridge_plugins.errors import BridgePluginsError, VetoError
from bridge_plugins.first_rank import on_first_rank
from bridge_plugins.plugins import manager, patcher

Item = TypeVar("Item", bound=tuple[Any, ...])
Watched = TypeVar("Watched")


@dataclass
class WeightAudit:
    """Audits one export after another of one model, on every rank that exports.

    Wrap the stream of each version, hand it to whoever consumes it, and call `finish`::

        audit = WeightAudit(model="Qwen3-30B-A3B", expected=Expected.from_folder(folder))
        engine.push(audit.watch(bridge.export_hf_weights(model)))
        summary, findings = audit.finish(version, group)

    What the transports of this process are handed meanwhile is recorded beside it, as stage ``wire``. To judge a version
    before its first byte leaves, audit one export that nobody sends, call `finish`, and then push another.

    Keeps one record per tensor of this version and of the one before, and no reference to a tensor.

    Args:
        rules: rules or their codes; None for ``BRIDGE_AUDIT_RULES``, or all.
        declared: what no checkpoint says of the tensors.
        strict: whether `finish` stops a version that has an error; None for ``BRIDGE_AUDIT_STRICT``.
    """

    model: str
    topology: str = ""
    expected: Expected | None = None
    rules: Sequence[Rule | str] | None = None
    declared: Declared = field(default_factory=Declared.from_environment)
    strict: bool | None = None
    _rules: tuple[Rule, ...] = field(default=(), init=False)
    _stream: Recording = field(default_factory=Recording, init=False)
    _wire: Recording = field(default_factory=Recording, init=False)
    _previous: Summary | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._rules = choose(self.rules)
        if self.strict is None:
            self.strict = os.environ.get("BRIDGE_AUDIT_STRICT", "") not in ("", "0")

    def watch(self, stream: Iterable[Item]) -> Iterator[Item]:
        """Yield the very items of `stream`, at once. An item is a tuple that begins with (HF name, tensor)."""
        yield from watch(stream, self._begin(), Recording.add)

    def watch_buckets(self, buckets: Iterable[list[Item]]) -> Iterator[list[Item]]:
        """The same of a stream that was cut into buckets, each a list of such items, for whoever needs them so anyway.

        All tensors of a bucket are read at once, which on a GPU costs far less than one by one.
        """
        yield from watch(buckets, self._begin(), Recording.add_all)

    def _begin(self) -> Recording:
        self._stream, self._wire = Recording(), Recording()
        handover.listen(self._wire)
        return self._stream

    def finish(
        self, version: str, group: Any = None, *, trained: bool = False
    ) -> tuple[Summary, list[Finding]]:
        """Roll up and judge the version that was watched last. Every rank of `group` must call it.

        Args:
            version: the weight version.
            group: a CPU process group of all ranks that exported; None for the default group, if there is one.
            trained: whether an optimizer step was made since the version before.

        Returns:
            This rank's summary, and the findings, which are the same on every rank. What each rank handed to a
            transport is judged on the first rank alone.

        Raises:
            VetoError: on every rank, if a `before_push` hook objects or, in strict mode, any finding is an error.
        """
        distributed = dist.is_available() and dist.is_initialized()
        rank = dist.get_rank(group) if distributed else 0
        world = dist.get_world_size(group) if distributed else 1
        handover.stop(self._wire)
        stream, wire = self._stream.take(), self._wire.take()
        summary = self._summary(stream, "hf", version, rank, world)
        sent = self._summary(wire, "wire", version, rank, world) if len(wire.columns) else None
        witnesses = agreement.witnesses(summary, group)

        def decide() -> tuple[list[Finding], str]:
            context = Context(
                self.expected, self._previous, trained, stream.columns.schema.repeated, wire.conflicting,
                stream.unread, sent, self.declared, witnesses,
            )  # fmt: skip
            findings = judge(self._rules, summary, context)
            return findings, self._objection(summary, findings)

        findings, objection = on_first_rank(
            decide, group, error_type=BridgePluginsError, what="the first rank could not judge the version: "
        )
        summary = summary.judged(findings)
        if rank == 0:  # the others hold the same
            tell_sinks(summary)
        if objection:
            raise VetoError(f"version {version} is not pushed: {objection}")
        self._previous = summary  # what was stopped is no version: its label is free, and nothing moved since
        return summary, findings

    def _summary(self, taken: Taken, stage: str, version: str, rank: int, world: int) -> Summary:
        header = Header(
            model=self.model,
            topology=self.topology,
            version=version,
            stage=stage,
            rank=rank,
            expected=self.expected.origin if self.expected else "",
            patches={name: status.state.value for name, status in patcher().status.items()},
            packages=package_versions(),
            world=world,
            partial=taken.partial,
            manifest=taken.columns.schema.manifest,
            seconds=taken.seconds,
        )
        return summarize_columns(header, taken.columns)

    def _objection(self, summary: Summary, findings: list[Finding]) -> str:
        """Why this version must not be pushed, in one line; empty if nobody objects."""
        try:
            manager().hook.before_push(summary=summary, findings=findings)
        except Exception as error:
            return next(iter(str(error).splitlines()), type(error).__name__)
        errors = [finding for finding in findings if finding.severity == "error"]
        if self.strict and errors:
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            return f"{errors[0]}{more}"
        return ""


def watch(
    stream: Iterable[Watched], recording: Recording, add: Callable[[Recording, Watched], None]
) -> Iterator[Watched]:
    """The very items of `stream`, each added to `recording`. A stream that ends early is marked as partial."""
    ended = "its consumer closed it early"
    try:
        for item in nesting.pull(stream):
            add(recording, item)
            yield item
            del item  # or this tensor would live on while the next one is made
        ended = ""
    except GeneratorExit:
        raise
    except BaseException as error:
        ended = f"it failed: {type(error).__name__}"
        raise
    finally:
        recording.partial = recording.partial or ended
