"""The fingerprint of tensors that pass by on a CUDA GPU, and what it costs an export."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from benchmarks.fingerprint import shapes
from benchmarks.fingerprint.report import Report
from benchmarks.fingerprint.timing import device_seconds, host_seconds, wall_seconds
from bridge_plugins.fingerprint import FingerprintStream

TB = 1e12
BUCKET = 1 << 30  # bytes


def stream(report: Report, tensors: list[Tensor]) -> None:
    """One launch per tensor on the current stream, and what that does to an export."""
    size, n = shapes.total_bytes(tensors), len(tensors)
    table = report.table(f"On a stream: {n:,} tensors, {size / 1e9:.3g} GB")
    recorder = FingerprintStream()
    _pass(recorder, tensors)
    recorder.read()
    few = tensors[:400]
    host = host_seconds(lambda: _pass(recorder, few))
    table.add("host time of an add", host / len(few) * 1e6, "µs", None, "of a kind seen before")
    recorder.read()
    others = [tensor[: 64 + 8 * i] for i, tensor in enumerate(tensors[:64])]
    start = time.perf_counter()
    _pass(recorder, others)
    table.add("host time of an add", (time.perf_counter() - start) / 64 * 1e6, "µs", None, "of a new kind")
    seconds = device_seconds(lambda: _pass(recorder, few), 3)
    table.add("device, all statistics", shapes.total_bytes(few) / seconds / TB, "TB/s", None, "back to back")
    recorder.read()
    _pass(recorder, tensors)
    table.add("reading, once", wall_seconds(recorder.read) * 1e3, "ms", None, f"{n:,} values")
    plain, passing = _in_turn(
        lambda: _drop(_export(tensors)), lambda: _drop(_audited(_export(tensors), recorder))
    )
    table.add("export, alone", plain / n * 1e6, "µs/tensor", None, "wall time")
    table.add("export, read as it passes", passing / n * 1e6, "µs/tensor", passing / plain, "without reading")
    plain, passing, together = _in_turn(
        lambda: _pack(_buckets(_export(tensors))),
        lambda: _pack(_buckets(_audited(_export(tensors), recorder))),
        lambda: _pack(_at_hand(_buckets(_export(tensors)), recorder)),
    )
    table.add("export, packed in buckets, alone", plain / n * 1e6, "µs/tensor", None, "wall time")
    for what, seconds in (("as it passes", passing), ("bucket by bucket", together)):
        table.add(f"…, read {what}", seconds / n * 1e6, "µs/tensor", seconds / plain, "without reading")
    recorder.read()


def _in_turn(*acts: Callable[[], None]) -> list[float]:
    """The shortest wall time of each."""
    times: list[list[float]] = [[wall_seconds(act) for act in acts] for _ in range(6)]
    return [min(each) for each in zip(*times, strict=True)]


def _export(tensors: list[Tensor]) -> Iterator[Tensor]:
    """As a bridge does at world size 1: each tensor is cut out of a fused one, contiguous."""
    for tensor in tensors:
        half = tensor.shape[0] // 2
        yield torch.cat([tensor[:half], tensor[half:]])


def _audited(tensors: Iterator[Tensor], recorder: FingerprintStream) -> Iterator[Tensor]:
    for tensor in tensors:
        recorder.add(tensor)
        yield tensor


def _drop(tensors: Iterator[Tensor]) -> None:
    for _ in tensors:
        pass


def _buckets(tensors: Iterator[Tensor]) -> Iterator[list[Tensor]]:
    bucket: list[Tensor] = []
    held = 0
    for tensor in tensors:
        bucket.append(tensor)
        held += tensor.nbytes
        if held >= BUCKET:
            yield bucket
            bucket, held = [], 0
    yield bucket


def _at_hand(buckets: Iterator[list[Tensor]], recorder: FingerprintStream) -> Iterator[list[Tensor]]:
    for bucket in buckets:
        recorder.add_all(bucket)
        yield bucket


def _pack(buckets: Iterator[list[Tensor]]) -> None:
    """As a push in flattened buckets does."""
    for bucket in buckets:
        torch.cat([tensor.reshape(-1) for tensor in bucket])


def _pass(recorder: FingerprintStream, tensors: list[Tensor]) -> None:
    for tensor in tensors:
        recorder.add(tensor)
