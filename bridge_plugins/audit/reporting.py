"""What automatic mode makes of a recorded version: summaries, judged and written, one file each."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import msgspec

from bridge_plugins.audit import keeping, origin
from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.files import path_of
from bridge_plugins.audit.judge import judge, tell_sinks
from bridge_plugins.audit.origin import Origin
from bridge_plugins.audit.recording import Recording, Taken
from bridge_plugins.audit.rules import BUILT_IN, LAST_STAGE, Context, Rule, choose
from bridge_plugins.audit.summary import Header, Summary, package_versions, summarize_columns
from bridge_plugins.errors import UsageError
from bridge_plugins.plugins import patcher

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class Version:
    """A version while it is under way.

    Attributes:
        audited: whether it is within the limit.
        label: gives the framework's own label, whenever it is asked; None if there is none.
        wire: what transports are handed; it listens until the version ends.
        origin: where its last stream came from; `exports` counts them.
        stream: the summary of the last one, and `waiting` whether its last rules wait for the wire.
    """

    ordinal: int
    audited: bool
    label: Callable[[], object] | None = None
    wire: Recording = field(default_factory=Recording)
    origin: Origin = field(default_factory=Origin)
    exports: int = 0
    stream: Summary | None = None
    waiting: bool = False

    @property
    def name(self) -> str:
        """The framework's own label, or the ordinal of the export for want of one."""
        return str(self.label()) if self.label is not None else str(self.ordinal)


class Reporter:
    """Judges on the ranks that keep records, and remembers each stage's version before."""

    def __init__(self) -> None:
        self._rules: tuple[Rule, ...] = _rules()
        self._declared = Declared.from_environment()
        self._previous: dict[str, Summary] = {}

    def stream_ended(
        self,
        version: Version,
        stage: str,
        given: Origin,
        recording: Recording,
        *,
        keeps: bool,
        updating: bool,
    ) -> None:
        """A stream of `version` came to its end. `keeps`: this rank keeps the records that others only sum up."""
        taken = recording.take()
        summary = self._summary(version, stage, taken, given)
        if keeps:
            # Where a transport has begun to take the version, what leaves is judged when it ends.
            version.waiting = stage == "hf" and (updating or len(version.wire) > 0)
            rules = [rule for rule in self._rules if not (version.waiting and rule.code in LAST_STAGE)]
            summary = self._judged(rules, summary, taken, version, given)
        if stage == "hf":
            version.stream = summary
        _write(summary if keeps else summary.brief())

    def version_ended(self, version: Version) -> None:
        """Nothing more is sent of `version`."""
        taken = version.wire.take()
        stream = version.stream
        last = [rule for rule in self._rules if rule.code in LAST_STAGE]
        if len(taken.columns):
            if origin.ranks()[1] > 1:
                taken = replace(taken, partial=taken.partial or "what this rank handed over")
            rules = [*last, *(rule for rule in self._rules if rule.code == "UNIQ")] if stream else self._rules
            sent = self._summary(version, "wire", taken, version.origin)
            _write(self._judged(rules, sent, taken, version, version.origin))
        elif stream is not None and version.waiting:
            # No transport that is known took it: the stream is the last stage after all.
            judged = self._judged(last, stream, taken, version, version.origin)
            _write(msgspec.structs.replace(judged, findings=[*stream.findings, *judged.findings]))

    def _judged(
        self, rules: Iterable[Rule], summary: Summary, taken: Taken, version: Version, given: Origin
    ) -> Summary:
        stage = summary.header.stage
        on_wire = stage == "wire"
        previous = self._previous.get(stage)
        expected = given.expected(previous)
        context = Context(
            expected=expected,
            previous=previous,
            trained=None,
            repeated=() if on_wire else taken.columns.schema.repeated,
            conflicting=taken.conflicting if on_wire else (),
            unread=taken.unread,
            wire=summary if on_wire else None,
            declared=self._declared,
        )
        findings = judge(rules, version.stream if on_wire and version.stream else summary, context)
        self._previous[stage] = summary
        header = msgspec.structs.replace(summary.header, expected=expected.origin if expected else "")
        return msgspec.structs.replace(summary, header=header, findings=findings)

    def _summary(self, version: Version, stage: str, taken: Taken, given: Origin) -> Summary:
        rank, world = origin.ranks()
        again = stage == "hf" and version.exports > 1
        header = Header(
            model=given.model,
            topology=origin.topology(),
            version=f"{version.name}.{version.exports}" if again else version.name,
            stage=stage,
            rank=rank,
            patches={name: status.state.value for name, status in patcher().status.items()},
            packages=package_versions(),
            world=world,
            unversioned=version.label is None,
            partial=taken.partial,
            manifest=taken.columns.schema.manifest,
            seconds=taken.seconds,
        )
        return summarize_columns(header, taken.columns)


def _write(summary: Summary) -> None:
    path = path_of(summary)
    keeping.write(summary, path)
    if not summary.records:
        return  # this rank saw what another one judges
    where = f"audit of version {summary.header.version}, stage {summary.header.stage}"
    counting = [finding for finding in summary.findings if finding.counts]
    for finding in counting:
        logger.warning("%s: %s", where, finding)
    logger.info(
        "%s: %d tensors, digest %s, %d findings, written to %s",
        where, len(summary.records), summary.digest[:16], len(counting), path,
    )  # fmt: skip
    tell_sinks(summary)


def _rules() -> tuple[Rule, ...]:
    try:
        return choose()
    except UsageError as error:  # in the midst of a run is no time to fail
        logger.error("BRIDGE_AUDIT_RULES: %s; all built-in rules judge", error)
        return BUILT_IN
