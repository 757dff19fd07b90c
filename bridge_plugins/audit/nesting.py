"""A stream inside a stream is counted once, by the outermost."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


class _Here(threading.local):
    depth = 0  #: of this thread: streams that are being asked for their next item


_here = _Here()


def inside() -> bool:
    """Whether an audited stream is being asked for its next item: what starts now is a part of it."""
    return _here.depth > 0


def pull(stream: Iterable[Item]) -> Iterator[Item]:
    """The items of `stream`. `inside` is true while the stream works, and not while its consumer does.

    Closing it closes the stream: behind it may stand a generator that cleans up.
    """
    iterator = iter(stream)
    try:
        while True:
            _here.depth += 1
            try:
                item = next(iterator)
            except StopIteration:
                return
            finally:
                _here.depth -= 1
            yield item
            del item  # or this tensor would live on while the next one is made
    finally:
        if close := getattr(iterator, "close", None):
            close()
