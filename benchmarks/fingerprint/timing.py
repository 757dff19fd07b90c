"""Timing: the best of several on the CPU, whose noise only adds; the median of device events on a GPU."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

Clock = Callable[[], float]


def best_seconds(call: Callable[[], object], repeats: int = 7, clock: Clock = time.thread_time) -> float:
    """The shortest of several calls, after one to warm up; in this thread's own time unless said otherwise.

    Others on the machine don't count in a thread's own time, but for the memory that they share with it.
    """
    call()
    return min(_seconds(call, clock) for _ in range(repeats))


def best_seconds_in_turn(
    calls: dict[str, tuple[Callable[[], object], Clock]], rounds: int
) -> dict[str, float]:
    """The shortest of several calls each, taken in turn: what disturbs the machine meets all of them."""
    for call, _ in calls.values():
        call()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for what, (call, clock) in calls.items():
            best[what] = min(best[what], _seconds(call, clock))
    return best


def _seconds(call: Callable[[], object], clock: Clock) -> float:
    start = clock()
    call()
    return clock() - start


_AHEAD = 40_000_000  # device cycles, about 20 ms


def device_seconds(call: Callable[[], object], repeats: int = 7) -> float:
    """The median time between device events around a call, after three to warm up.

    The device is kept busy until the host has queued the whole call: host time is measured on its own.
    """
    for _ in range(3):
        call()
    times: list[float] = []
    for _ in range(repeats):
        start = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        torch.cuda._sleep(_AHEAD)  # type: ignore[no-untyped-call]
        start.record()
        call()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1e3)
    return statistics.median(times)


def host_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    """The shortest time that a call keeps the host, with the device idle before it."""
    call()
    times = []
    for _ in range(repeats):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    torch.cuda.synchronize()
    return min(times)


def wall_seconds(call: Callable[[], object]) -> float:
    """The time until a call and all that it queued are done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    call()
    torch.cuda.synchronize()
    return time.perf_counter() - start
