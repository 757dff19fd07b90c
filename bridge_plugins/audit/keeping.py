"""Summaries written into a folder that another run may write to as well: nothing is written over but one's own."""

from __future__ import annotations

import itertools
import logging
import os
import threading
from pathlib import Path

from bridge_plugins.audit.summary import Summary

logger = logging.getLogger(__name__)

_TICK = 1_000_000  #: nanoseconds that file systems tell apart

_lock = threading.Lock()
_own: dict[Path, int] = {}  #: what this process has written: the file's inode
_newest: list[Path] = []  #: the two files that it wrote last: the last one may be written anew


def write(summary: Summary, path: Path) -> None:
    """Write `summary`. A file of that name which this process did not write is kept beside it.

    Files are never older than the one that this process wrote before: by that versions are put in order whose labels
    are no numbers, and a clock may move back.
    """
    with _lock:
        if path.exists() and path.stat().st_ino != _own.get(path):
            kept = _aside(path)
            logger.warning(
                "%s is another run's and is kept as %s: give each run a folder of its own", path, kept.name
            )
        summary.write(path)
        _own[path] = path.stat().st_ino
        _keep_order(path)


def _aside(path: Path) -> Path:
    for count in itertools.count(1):
        kept = path.with_name(f"{path.name}.{count}.old")
        try:
            os.link(path, kept)  # unlike a rename, it never writes over another file
        except FileExistsError:
            continue
        return kept
    raise AssertionError


def _keep_order(path: Path) -> None:
    before = max((one.stat().st_mtime_ns for one in _newest if one.exists() and one != path), default=0)
    if path.stat().st_mtime_ns <= before:
        after = before + _TICK
        os.utime(path, ns=(after, after))
    if path not in _newest:
        _newest[:] = [*_newest[-1:], path]
