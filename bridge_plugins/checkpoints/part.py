"""A folder that is there whole or not at all: written under a hidden name, and renamed when all of it is on disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bridge_plugins.errors import UsageError


@contextlib.contextmanager
def whole(destination: Path) -> Iterator[Path]:
    """A hidden folder beside `destination`, which becomes `destination` when the block ends, and is removed if it fails.

    Raises `UsageError` if `destination` is there already, before the block and after it, or can't be made.
    """
    _refuse(destination)
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{destination.name}.part-", dir=destination.parent))
    except OSError as error:
        raise UsageError(f"{destination} can't be made: {error.strerror}") from error
    try:
        yield part
        _refuse(destination)
        part.chmod(0o777 & ~_umask())  # mkdtemp's folders are their owner's alone
        _to_disk(part)
        part.rename(destination)
        _sync(destination.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _refuse(destination: Path) -> None:
    if destination.exists() or destination.is_symlink():
        raise UsageError(
            f"{destination} is there already: nothing is written over; remove it, or name another"
        )


def _to_disk(folder: Path) -> None:
    """What is renamed must be whole after a power cut too."""
    for at, _, files in os.walk(folder):
        for file in files:
            _sync(Path(at) / file)
        _sync(Path(at))


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
