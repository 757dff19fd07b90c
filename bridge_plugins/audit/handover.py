"""Where a transport says what it was handed: the wire stage. Whoever listens has a recording open here."""

from __future__ import annotations

import itertools
import logging
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit.recording import Recording
    from bridge_plugins.fingerprint.flat import Slice

logger = logging.getLogger(__name__)

_buckets = itertools.count()
# Weak: whoever drops its recording has stopped listening.
_open: weakref.WeakSet[Any] = weakref.WeakSet()


def listen(recording: Recording) -> None:
    """Let `recording` have what every transport of this process is handed from now on."""
    _open.add(recording)


def stop(recording: Recording) -> None:
    """The opposite of `listen`."""
    _open.discard(recording)


def handed_over(
    named_tensors: Callable[[], Iterable[tuple[str, Any]]], *, one_call: bool = True, strided: bool = False
) -> None:
    """Say what one bucket, or one call of a transport, holds.

    Args:
        named_tensors: gives (HF name, tensor) of the very bytes that leave; called only if somebody listens. Its
            failure is logged and stops no push.
        one_call: the engine loads these together; False where nobody knows what it loads together.
        strided: the transport reads a view by its strides, so that one is no finding.
    """
    number = next(_buckets) if one_call else None

    def tell(listening: list[Recording]) -> None:
        for item in named_tensors():
            for recording in listening:
                recording.add(item, number, strided=strided)

    _tell(tell)


def bucket_handed_over(buffer: Tensor, named: Callable[[], Iterable[tuple[str, Slice]]]) -> None:
    """Say what a bucket holds that leaves as one buffer of bytes, and that an engine loads in one call.

    Args:
        buffer: the very bytes that leave.
        named: gives each tensor's HF name, and where in the buffer it lies and as what (see `Slice`); called only if
            somebody listens. Its failure is logged and stops no push.
    """
    number = next(_buckets)

    def tell(listening: list[Recording]) -> None:
        held = list(named())
        for recording in listening:
            recording.add_flat(buffer, held, number)

    _tell(tell)


def _tell(tell: Callable[[list[Recording]], None]) -> None:
    if not _open:
        return
    try:
        tell(list(_open))
    except Exception:
        logger.exception("what was handed to the transport could not be audited; the push goes on")
