"""Push a stream of HF tensors to engines in flattened buckets; a version counts only when all of it arrived everywhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.wire import LOAD_FORMAT, Bucket
from bridge_plugins.errors import EngineError, PushError

DEFAULT_BUCKET_BYTES = 512 << 20


@dataclass(frozen=True)
class Pushed:
    """What one push sent to each engine."""

    tensors: int
    nbytes: int
    buckets: int
    seconds: float


def push(
    stream: Iterable[tuple[str, Tensor]],
    engines: Sequence[Engine],
    *,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    group: Any = None,
) -> Pushed:
    """Send all of `stream` to all of `engines`. Every rank that exports must call it.

    Args:
        stream: (HF name, tensor) items. On every rank it is drained to its end, whatever fails: behind it stand
            collectives that the other ranks wait in.
        engines: the engines, on the one rank that sends; empty on the others.
        bucket_bytes: a bucket is sent when it holds this much.
        group: a CPU process group of the ranks that export; None for the default group, if there is one.

    The engines' weight version is left as it is: set it with `Engine.set_weight_version` once what they serve has
    been verified.

    Raises:
        PushError: on every rank, if any engine did not take all of it.
    """
    started = time.perf_counter()
    sender = _Sender(engines)
    tensors = nbytes = buckets = 0
    try:
        sender.begin()
        for bucket in _buckets(stream, bucket_bytes):
            tensors, nbytes, buckets = (
                tensors + len(bucket),
                nbytes + sum(t.nbytes for _, t in bucket),
                buckets + 1,
            )
            sender.send(bucket)
            del bucket  # or two buckets would be held while the next one fills
    finally:
        sender.end()
    sender.flush()
    failures: list[Any] = [sender.failure]
    if dist.is_available() and dist.is_initialized():
        # Whoever has engines is the sender; the others have nothing to tell.
        failures = [None] * dist.get_world_size(group)
        dist.all_gather_object(failures, sender.failure, group=group)
    if failed := [failure for failure in failures if failure]:
        raise PushError(failed[0])
    return Pushed(tensors, nbytes, buckets, time.perf_counter() - started)


class _Sender:
    """Buckets to engines. Nothing that goes wrong here may leave the stream: the first failure is kept, nothing more
    is sent after it, and what is open is closed."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        self.engines = engines
        self.failure = ""
        self._open: list[Engine] = []

    def begin(self) -> None:
        for engine in self.engines:
            self._try(engine, "could not begin the update", self._begin)

    def send(self, named_tensors: list[tuple[str, Tensor]]) -> None:
        if not self.engines or self.failure:
            return
        what = f"did not load the bucket that begins with {named_tensors[0][0]}"
        made: list[Bucket] = []
        self._try(self.engines[0], what, lambda _: made.append(Bucket(named_tensors)))
        for engine in self.engines:
            self._try(engine, what, lambda engine: self._load(engine, made[0]))

    def end(self) -> None:
        for engine in self._open:
            self._try(engine, "could not end the update", Engine.end_weight_update, after_failure=True)
        self._open.clear()

    def flush(self) -> None:
        for engine in self.engines:
            self._try(engine, "could not flush its prefix cache (pause generation first)", Engine.flush_cache)

    def _begin(self, engine: Engine) -> None:
        _ = engine.ranks  # asked here, where nothing was sent yet, and not at the first bucket
        if engine.begin_weight_update():
            self._open.append(engine)

    def _load(self, engine: Engine, bucket: Bucket) -> None:
        engine.update_weights_from_tensor([bucket.payload() for _ in range(engine.ranks)], LOAD_FORMAT)

    def _try(
        self, engine: Engine, what: str, act: Callable[[Engine], Any], *, after_failure: bool = False
    ) -> None:
        if self.failure and not after_failure:
            return
        try:
            act(engine)
        except Exception as error:  # whatever it is, the other ranks wait in the stream's collectives
            kind = "" if isinstance(error, EngineError) else f"{type(error).__name__}: "
            self.failure = self.failure or f"{engine.url} {what}: {kind}{error}"


def _buckets(stream: Iterable[tuple[str, Tensor]], nbytes: int) -> Iterator[list[tuple[str, Tensor]]]:
    bucket: list[tuple[str, Tensor]] = []
    filled = 0
    for name, tensor in stream:
        bucket.append((name, tensor))
        filled += tensor.nbytes
        del tensor
        if filled >= nbytes:
            yield bucket
            bucket, filled = [], 0
    if bucket:
        yield bucket
