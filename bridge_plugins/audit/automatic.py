"""``BRIDGE_AUDIT=1``: every export of this process is audited where it happens, with no call in the user's code.

Issues no collective. Each rank writes one file for each version and stage; `audit.merge` reads them together.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import msgspec

from bridge_plugins.audit import handover, nesting, origin
from bridge_plugins.audit.declared import Declared
from bridge_plugins.audit.files import path_of, versions_to_audit
from bridge_plugins.audit.judge import judge, tell_sinks
from bridge_plugins.audit.origin import Origin
from bridge_plugins.audit.recording import Recording, Taken
from bridge_plugins.audit.rules import LAST_STAGE, Context, Rule, choose
from bridge_plugins.audit.summary import Header, Summary, package_versions, summarize
from bridge_plugins.audit.weight_audit import watch
from bridge_plugins.plugins import patcher

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=tuple[Any, ...])


def wanted() -> bool:
    """Whether ``BRIDGE_AUDIT`` asks for automatic mode."""
    return os.environ.get("BRIDGE_AUDIT", "") not in ("", "0")


@functools.cache
def automatic() -> Automatic:
    """This process's automatic audit."""
    return Automatic()


@dataclass(eq=False)
class _Version:
    """A version while it is under way. `wire` listens until the version ends."""

    ordinal: int
    audited: bool
    label: Callable[[], object] | None = None
    wire: Recording = field(default_factory=Recording)
    origin: Origin = field(default_factory=Origin)
    exports: int = 0
    stream: Summary | None = None
    waiting: bool = False  # the stream's last rules wait for the wire

    @property
    def name(self) -> str:
        """The framework's own label, or the ordinal of the export for want of one."""
        return str(self.label()) if self.label is not None else str(self.ordinal)


class Automatic:
    """Versions of one process, one after another."""

    def __init__(self) -> None:
        self._rules: tuple[Rule, ...] = choose()
        self._declared = Declared.from_environment()
        self._limit = versions_to_audit()
        self._ordinals: Counter[str] = Counter()
        self._version: _Version | None = None
        self._updating = False
        self._saving = False
        self._previous: dict[str, Summary] = {}
        atexit.register(self._close)

    def exported(self, stream: Iterable[Item], describe: Callable[[], Origin]) -> Iterator[Item]:
        """The very items of an export, audited unless it is a part of another audited stream.

        Args:
            describe: says where the export comes from; called once, when its first item is asked for.
        """
        begun = None if nesting.inside() else self._begin(describe)
        if begun is None:
            yield from stream
            return
        version, stage, keeps = begun
        recording = Recording(partial=version.origin.partial)
        try:
            yield from watch(stream, recording)
        finally:
            _quietly(lambda: self._stream_ended(version, stage, recording, keeps))

    @contextlib.contextmanager
    def updating(self, label: Callable[[], object] | None = None) -> Iterator[None]:
        """Around an update of engines: what is exported and sent inside is one version.

        Args:
            label: gives the version's label, whenever it is asked: frameworks count up inside. A label that is no
                number is always audited.
        """
        if self._updating:
            yield
            return
        self._close()
        self._updating, self._version = True, self._open("hf", label)
        try:
            yield
        finally:
            self._updating = False
            self._close()

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Around a save to disk: what is exported inside is of stage ``save``."""
        before, self._saving = self._saving, True
        try:
            yield
        finally:
            self._saving = before

    def _begin(self, describe: Callable[[], Origin]) -> tuple[_Version, str, bool] | None:
        """The version and the stage of an export that begins, and whether this rank keeps its records."""
        try:
            given = describe()
            stage = "save" if self._saving else "adapter" if given.adapters else "hf"
            if stage == "save":
                version = self._open(stage)
            elif self._updating and self._version is not None:
                version = self._version
            else:
                self._close()
                version = self._version = self._open("hf")
            version.origin = given
            version.exports += 1
            return (version, stage, origin.is_first()) if version.audited else None
        except Exception:  # an audit that fails must not fail the run
            logger.exception("this export is not audited; the run goes on")
            return None

    def _open(self, stage: str, label: Callable[[], object] | None = None) -> _Version:
        self._ordinals[stage] += 1
        ordinal = self._ordinals[stage]
        known = label is None or str(label()).isdigit()
        version = _Version(ordinal, self._limit < 0 or ordinal <= self._limit or not known, label)
        if version.audited and stage != "save":
            handover.listen(version.wire)
        return version

    def _stream_ended(self, version: _Version, stage: str, recording: Recording, keeps: bool) -> None:
        taken = recording.take()
        summary = self._summary(version, stage, taken)
        if keeps:
            # Where a transport has begun to take the version, what leaves is judged when it ends.
            version.waiting = stage == "hf" and (self._updating or len(version.wire) > 0)
            rules = [rule for rule in self._rules if not (version.waiting and rule.code in LAST_STAGE)]
            summary = self._judged(rules, summary, taken, version)
        if stage == "hf":
            version.stream = summary
        _write(summary if keeps else summary.brief())

    def _close(self) -> None:
        """End the version under way: whatever its transports were handed is judged and written."""
        version, self._version = self._version, None
        if version is None:
            return
        handover.stop(version.wire)
        _quietly(lambda: self._version_ended(version))

    def _version_ended(self, version: _Version) -> None:
        taken = version.wire.take()
        stream = version.stream
        last = [rule for rule in self._rules if rule.code in LAST_STAGE]
        if taken.records:
            if origin.ranks()[1] > 1:
                taken = replace(taken, partial=taken.partial or "what this rank handed over")
            rules = [*last, *(rule for rule in self._rules if rule.code == "UNIQ")] if stream else self._rules
            _write(self._judged(rules, self._summary(version, "wire", taken), taken, version))
        elif stream is not None and version.waiting:
            # No transport that is known took it: the stream is the last stage after all.
            judged = self._judged(last, stream, taken, version)
            _write(msgspec.structs.replace(judged, findings=[*stream.findings, *judged.findings]))

    def _judged(self, rules: Iterable[Rule], summary: Summary, taken: Taken, version: _Version) -> Summary:
        stage = summary.header.stage
        on_wire = stage == "wire"
        previous = self._previous.get(stage)
        expected = version.origin.expected(previous)
        context = Context(
            expected=expected,
            previous=previous,
            trained=None,
            repeated=() if on_wire else taken.repeated,
            conflicting=taken.conflicting if on_wire else (),
            unread=taken.unread,
            wire=summary if on_wire else None,
            declared=self._declared,
        )
        findings = judge(rules, version.stream if on_wire and version.stream else summary, context)
        self._previous[stage] = summary
        header = msgspec.structs.replace(summary.header, expected=expected.origin if expected else "")
        return msgspec.structs.replace(summary, header=header, findings=findings)

    def _summary(self, version: _Version, stage: str, taken: Taken) -> Summary:
        rank, world = origin.ranks()
        again = stage == "hf" and version.exports > 1
        header = Header(
            model=version.origin.model,
            topology=origin.topology(),
            version=f"{version.name}.{version.exports}" if again else version.name,
            stage=stage,
            rank=rank,
            patches={name: status.state.value for name, status in patcher().status.items()},
            packages=package_versions(),
            world=world,
            unversioned=version.label is None,
            partial=taken.partial,
            manifest=taken.manifest,
            seconds=taken.seconds,
        )
        return summarize(header, taken.records)


def _write(summary: Summary) -> None:
    path = path_of(summary)
    summary.write(path)
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


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:  # an audit that fails must not fail the run
        logger.exception("this version could not be audited; the run goes on")
