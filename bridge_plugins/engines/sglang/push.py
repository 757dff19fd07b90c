"""Push a stream of HF tensors to engines, bucket by bucket; a version counts only where all of it arrived."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bridge_plugins.engines.sglang.buckets import NamedTensors, buckets
from bridge_plugins.engines.sglang.client import Engine, PauseMode
from bridge_plugins.engines.sglang.fleet import Fleet, OnFailure
from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.engines.sglang.transports.from_tensor import FromTensor
from bridge_plugins.errors import PushError

DEFAULT_BUCKET_BYTES = 512 << 20

Watch = Callable[[Iterator[NamedTensors]], Iterator[NamedTensors]]
"""Yields the very buckets that it is given."""


@dataclass(frozen=True)
class Pushed:
    """What one push sent to each engine. `failed`: by URL, engines that it went on without, and why."""

    tensors: int
    nbytes: int
    buckets: int
    seconds: float
    failed: dict[str, str] = field(default_factory=dict)


def push(
    stream: Iterable[tuple[str, Tensor]],
    engines: Sequence[Engine],
    *,
    transport: Transport | None = None,
    bucket_bytes: int = DEFAULT_BUCKET_BYTES,
    group: Any = None,
    on_failure: OnFailure = "stop",
    pause: PauseMode | None = None,
    watch: Watch = iter,
) -> Pushed:
    """Send all of `stream` to all of `engines`. Every rank that exports must call it.

    Args:
        stream: (HF name, tensor) items. On every rank it is drained to its end, whatever fails: behind it stand
            collectives that the other ranks wait in.
        engines: the engines, on the one rank that sends; empty on the others.
        transport: how they get it; None for `FromTensor`.
        bucket_bytes: a bucket is sent when it holds this much.
        group: a CPU process group of the ranks that export; None for the default group, if there is one.
        on_failure: "stop": once an engine has failed, nothing more is sent to any. "roll on": the others get all of it.
        pause: how to pause generation first. An engine that was paused and holds a byte of this version stays paused:
            `Engine.continue_generation` once what it serves has been verified.
        watch: sees each bucket before it is packed, as `WeightAudit.watch_buckets` does.

    The engines' weight version is left as it is: set it with `Engine.set_weight_version` once what they serve has
    been verified.

    Raises:
        PushError: on every rank, if any engine did not take all of it; with "roll on", if none did.
    """
    started = time.perf_counter()
    sender = _Sender(Fleet(engines, on_failure), transport or FromTensor(), pause)
    tensors = nbytes = count = 0
    try:
        sender.begin()
        for bucket in watch(buckets(stream, bucket_bytes)):
            tensors, nbytes, count = (
                tensors + len(bucket),
                nbytes + sum(t.nbytes for _, t in bucket),
                count + 1,
            )
            sender.send(bucket)
            del bucket  # or two buckets would be held while the next one fills
    except BaseException:
        sender.abandon()
        raise
    sender.end()
    failures: list[Any] = [sender.failures]
    if dist.is_available() and dist.is_initialized():
        # Whoever has engines is the sender; the others have nothing to tell.
        failures = [None] * dist.get_world_size(group)
        dist.all_gather_object(failures, sender.failures, group=group)
    if fatal := [why for _, why in failures if why]:
        raise PushError(fatal[0])
    failed = {url: why for engines_failed, _ in failures for url, why in engines_failed.items()}
    return Pushed(tensors, nbytes, count, time.perf_counter() - started, failed)


class _Sender:
    """Buckets to engines. Nothing that goes wrong here may leave the stream: what fails is kept, and what is open is
    closed."""

    def __init__(self, fleet: Fleet, transport: Transport, pause: PauseMode | None) -> None:
        self._fleet, self._transport, self._pause = fleet, transport, pause
        self._paused: set[str] = set()
        self._begun: list[Engine] = []
        self._touched: set[str] = set()

    @property
    def failures(self) -> tuple[dict[str, str], str]:
        """The engines that failed, and why that is the end of this push; empty if it isn't."""
        failed = self._fleet.failed
        if not failed or self._fleet.live:
            return failed, ""
        parts = [engine.url for engine in self._fleet.engines if engine.url in self._touched & self._paused]
        paused = f"; still paused, with a part of this version: {', '.join(parts)}" if parts else ""
        return failed, "; ".join(failed.values()) + paused

    def begin(self) -> None:
        if mode := self._pause:
            self._fleet.each("could not be paused", lambda engine: engine.pause_generation(mode))
            self._paused = {engine.url for engine in self._fleet.engines} - self._fleet.failed.keys()
        self._begun = list(self._fleet.live)
        self._fleet.each("could not begin the update", self._transport.begin)

    def send(self, bucket: NamedTensors) -> None:
        if not self._fleet.live:
            return
        what = f"did not load the bucket that begins with {bucket[0][0]}"
        try:
            packed = self._transport.pack(bucket)
            if bucket[0][1].is_cuda:
                # Threads have a current stream of their own, which knows nothing of the one that packed.
                torch.cuda.current_stream().synchronize()
        except Exception as error:  # out of memory, a full disk
            self._fleet.fail(what, error)
            return
        self._touched |= {engine.url for engine in self._fleet.live}
        self._fleet.each(what, lambda engine: self._transport.load(engine, packed))

    def end(self) -> None:
        live = self._fleet.live
        ended = self._fleet.each("could not end the update", self._transport.end)
        if self._pause != "in_place":  # that mode keeps what running requests have computed, and so the cache
            self._fleet.each("could not flush its prefix cache (pause generation first)", Engine.flush_cache)
        self._close([engine for engine in self._begun if engine not in live or engine.url not in ended])

    def abandon(self) -> None:
        """The stream itself has failed."""
        self._close(self._begun)

    def _close(self, unfinished: Sequence[Engine]) -> None:
        what = "could not close the update"
        self._fleet.each_of(unfinished, what, self._transport.abandon)
        untouched = [e for e in self._fleet.engines if e.url in self._paused - self._touched]
        self._fleet.each_of(untouched, "could not continue", Engine.continue_generation)
        self._fleet.close()
