"""A progress bar on stderr for what takes longer than a second."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from rich.console import Console

_PATIENCE = 1.0  #: seconds before there is anything to see


@contextlib.contextmanager
def reading(what: str, nbytes: int) -> Iterator[Callable[[int], None]]:
    """Yields a call that is told how many of `nbytes` bytes more were read. Nothing is shown without a terminal."""
    console = Console(stderr=True)
    if not (nbytes and console.is_terminal):
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task(what, total=nbytes)
    started = time.monotonic()

    def read(more: int) -> None:
        bar.advance(task, more)
        if not bar.live.is_started and time.monotonic() - started > _PATIENCE:
            bar.start()

    try:
        yield read
    finally:
        bar.stop()
