"""``BRIDGE_AUDIT=1``: every export of this process is audited where it happens, with no call in the user's code.

Issues no collective. Each rank writes one file for each version and stage; `audit.reading` reads them together.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from bridge_plugins.audit import handover, nesting, origin
from bridge_plugins.audit.files import versions_to_audit
from bridge_plugins.audit.label import number
from bridge_plugins.audit.origin import Origin
from bridge_plugins.audit.recording import Recording
from bridge_plugins.audit.reporting import Reporter, Version
from bridge_plugins.audit.weight_audit import watch

logger = logging.getLogger(__name__)

Item = TypeVar("Item", bound=tuple[Any, ...])


@functools.cache
def automatic() -> Automatic:
    """This process's automatic audit."""
    return Automatic()


class Automatic:
    """Versions of one process, one after another."""

    def __init__(self) -> None:
        self._reporter = Reporter()
        self._limit = versions_to_audit()
        self._ordinals: Counter[str] = Counter()
        self._version: Version | None = None
        self._updating = False
        self._saving = False
        atexit.register(self.close)

    def exported(self, stream: Iterable[Item], describe: Callable[[], Origin]) -> Iterator[Item]:
        """The very items of an export, audited unless it is a part of another audited stream.

        Args:
            describe: says where the export comes from; called once, when its first item is asked for.
        """
        begun = None if nesting.inside() else self._begin(describe)
        if begun is None:
            yield from stream
            return
        version, stage, given, keeps = begun
        recording = Recording(partial=given.partial)
        try:
            yield from watch(stream, recording, Recording.add)
        finally:
            _quietly(
                lambda: self._reporter.stream_ended(
                    version, stage, given, recording, keeps=keeps, updating=self._updating
                )
            )

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
        self.close()
        self._updating, self._version = True, self._open("hf", label)
        try:
            yield
        finally:
            self._updating = False
            self.close()

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        """Around a save to disk: what is exported inside is of stage ``save``."""
        before, self._saving = self._saving, True
        try:
            yield
        finally:
            self._saving = before

    def _begin(self, describe: Callable[[], Origin]) -> tuple[Version, str, Origin, bool] | None:
        """Version, stage and origin of an export that begins, and whether this rank keeps its records."""
        try:
            given = describe()
            stage = "save" if self._saving else "adapter" if given.adapters else "hf"
            if stage == "save":
                version = self._open(stage)
            elif self._updating and self._version is not None:
                version = self._version
            else:
                self.close()
                version = self._version = self._open("hf")
            if stage == "hf":
                version.origin = given
                version.exports += 1
            return (version, stage, given, origin.is_first()) if version.audited else None
        except Exception:  # an audit that fails must not fail the run
            logger.exception("this export is not audited; the run goes on")
            return None

    def _open(self, stage: str, label: Callable[[], object] | None = None) -> Version:
        self._ordinals[stage] += 1
        ordinal = self._ordinals[stage]
        known = label is None or number(str(label())) is not None
        version = Version(ordinal, self._limit < 0 or ordinal <= self._limit or not known, label)
        if version.audited and stage != "save":
            handover.listen(version.wire)
        return version

    def close(self) -> None:
        """End the version under way: what its transports were handed is judged and written. Called at exit, too."""
        version, self._version = self._version, None
        if version is None:
            return
        handover.stop(version.wire)
        _quietly(lambda: self._reporter.version_ended(version))


def _quietly(act: Callable[[], None]) -> None:
    try:
        act()
    except Exception:  # an audit that fails must not fail the run
        logger.exception("this version could not be audited; the run goes on")
