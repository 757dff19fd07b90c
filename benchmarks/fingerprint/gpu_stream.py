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
    for what, consume in (("export", _drop), ("export, packed in buckets", _pack)):
        plain, audited = _in_turn(consume, tensors, recorder)
        table.add(f"{what}, alone", plain / n * 1e6, "µs/tensor", None, "wall time")
        table.add(
            f"{what}, read as it passes", audited / n * 1e6, "µs/tensor", audited / plain, "without reading"
        )
    recorder.read()


def _in_turn(
    consume: Callable[[Iterator[Tensor]], None], tensors: list[Tensor], recorder: FingerprintStream
) -> tuple[float, float]:
    """The shortest wall times of an export, alone and read as it passes."""
    plain, audited = [], []
    for _ in range(6):
        plain.append(wall_seconds(lambda: consume(_export(tensors))))
        audited.append(wall_seconds(lambda: consume(_audited(_export(tensors), recorder))))
    return min(plain), min(audited)


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


def _pack(tensors: Iterator[Tensor]) -> None:
    """As a push in flattened buckets does."""
    bucket: list[Tensor] = []
    held = 0
    for tensor in tensors:
        bucket.append(tensor.reshape(-1))
        held += tensor.nbytes
        if held >= BUCKET:
            torch.cat(bucket)
            bucket, held = [], 0
    if bucket:
        torch.cat(bucket)


def _pass(recorder: FingerprintStream, tensors: list[Tensor]) -> None:
    for tensor in tensors:
        recorder.add(tensor)
