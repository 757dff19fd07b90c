"""The fingerprint on a CUDA GPU: at rest, on a stream, in odd shapes, and beside other hashes."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from benchmarks.fingerprint import shapes
from benchmarks.fingerprint.gpu_agreement import agreement
from benchmarks.fingerprint.gpu_stream import stream
from benchmarks.fingerprint.report import Report
from benchmarks.fingerprint.timing import device_seconds, host_seconds, wall_seconds
from bridge_plugins.fingerprint import FingerprintTable, Part

DEVICE = "cuda"
TB = 1e12


def run(report: Report, only: str | None) -> None:
    """All GPU tables, or one group of them."""
    if only in (None, "agreement"):
        agreement(report)
    tensors = shapes.weights(shapes.slice_of_eight(), DEVICE)
    ceiling = at_rest(report, tensors)
    if only is None:
        per_tensor(report, tensors, ceiling)
    if only in (None, "stream"):
        stream(report, tensors)
    del tensors
    torch.cuda.empty_cache()
    if only in (None, "odd"):
        odd(report, ceiling)
    torch.cuda.empty_cache()
    if only is None:
        whole_model(report)


def at_rest(report: Report, tensors: list[Tensor]) -> float:
    """A slice of Qwen3-30B-A3B in one launch; returns the read rate of this run in bytes per second."""
    size = shapes.total_bytes(tensors)
    one = torch.empty(size // 2, dtype=torch.bfloat16, device=DEVICE).normal_(0, 0.02)
    before = size / device_seconds(lambda: torch.amax(one.view(torch.int32)))
    copy = 2 * size / device_seconds(one.clone)
    hash_one = size / device_seconds(lambda: torch.hash_tensor(one))
    parts = [Part(tensor) for tensor in tensors]
    rates = {}
    for statistics in (False, True):
        made = FingerprintTable(parts, statistics=statistics)
        rates[statistics] = size / device_seconds(lambda made=made: made.run(tensors))  # type: ignore[misc]
    after = size / device_seconds(lambda: torch.amax(one.view(torch.int32)))
    ceiling = max(before, after)
    table = report.table(
        f"At rest: {len(tensors):,} tensors, {size / 1e9:.3g} GB, one launch", "int32 amax over one buffer"
    )
    table.add(
        "int32 amax over one buffer of the same size",
        ceiling / TB,
        "TB/s",
        1.0,
        f"{before / TB:.4g} before, {after / TB:.4g} after",
    )
    table.add("copy, read and written bytes", copy / TB, "TB/s", copy / ceiling)
    table.add("fingerprint", rates[False] / TB, "TB/s", rates[False] / ceiling)
    table.add("fingerprint and all statistics", rates[True] / TB, "TB/s", rates[True] / ceiling)
    table.add("torch.hash_tensor over one buffer", hash_one / TB, "TB/s", hash_one / ceiling)
    return ceiling


def per_tensor(report: Report, tensors: list[Tensor], ceiling: float) -> None:
    """Other hashes as their users call them, tensor by tensor."""
    table = report.table(f"Tensor by tensor, {len(tensors):,} tensors", "int32 amax over one buffer")
    size = shapes.total_bytes(tensors)
    for name, call in _peers().items():
        if call is None:
            table.add(name, float("nan"), "TB/s", None, "not installed")
            continue
        call(tensors[0])
        torch.cuda.synchronize()
        start = time.perf_counter()
        for tensor in tensors:
            call(tensor)
        torch.cuda.synchronize()
        rate = size / (time.perf_counter() - start)
        table.add(name, rate / TB, "TB/s", rate / ceiling, "warm; wall time")


def _peers() -> dict[str, Callable[[Tensor], object] | None]:
    peers: dict[str, Callable[[Tensor], object] | None] = {"torch.hash_tensor": torch.hash_tensor}
    try:
        from sglang.kernels.ops.memory.gpu_tensor_hash import gpu_tensor_hash
    except ImportError:
        gpu_tensor_hash = None
    peers["SGLang's weight checker's hash"] = gpu_tensor_hash
    return peers


def odd(report: Report, ceiling: float) -> None:
    """Short rows, other dtypes, other strides."""
    table = report.table("Other shapes and dtypes, 2 GiB each, all statistics", "int32 amax over one buffer")
    source = torch.empty(1 << 30, dtype=torch.bfloat16, device=DEVICE).normal_(0, 0.02)
    square = source.view(32768, 32768)
    cases = {
        "bfloat16, rows of 16384 words": square,
        "bfloat16, rows of 64 words": source.view(-1, 128),
        "bfloat16, rows of 8 words (LoRA of rank 16)": source.view(-1, 16),
        "bfloat16, rows of 4 words": source.view(-1, 8),
        "bfloat16, rows of 2 words (conv1d)": source.view(-1, 1, 4),
        "uint8, rows of 4 words (MXFP4 blocks)": source.view(torch.uint8).view(-1, 16),
        "bfloat16, one row": source,
        "float32": source.view(torch.uint8).view(-1)[: 1 << 30].to(torch.float32).view(16384, -1)[:, :32768],
        "float16": square.to(torch.float16),
        "float8_e4m3fn": torch.cat([square, square], 1).to(torch.float8_e4m3fn),
        "int8": source.view(torch.int8).view(32768, -1),
        "bfloat16, a TP half of the columns": square[:, :16384],
        "bfloat16, transposed store": square.t(),
        "bfloat16, rows of an odd length": source[: 32768 * 32767].view(32768, 32767),
    }
    for what, tensor in cases.items():
        made = FingerprintTable([Part(tensor)])
        rate = tensor.numel() * tensor.element_size() / device_seconds(lambda: made.run([tensor]), 3)  # noqa: B023
        table.add(what, rate / TB, "TB/s", rate / ceiling)


def whole_model(report: Report) -> None:
    """All of Qwen3-30B-A3B: host time and wall time of a pass."""
    tensors = shapes.weights(shapes.whole(), DEVICE)
    size = shapes.total_bytes(tensors)
    table = report.table(
        f"Qwen3-30B-A3B at rest: {len(tensors):,} tensors, {size / 1e9:.3g} GB, all statistics"
    )
    start = time.perf_counter()
    made = FingerprintTable([Part(tensor) for tensor in tensors])
    table.add("making the table", (time.perf_counter() - start) * 1e3, "ms", None, "once per run")
    pointers = np.array([tensor.data_ptr() for tensor in tensors])
    seconds = device_seconds(lambda: made.queue(tensors, pointers), 5)
    table.add("the pass, on the device", seconds * 1e3, "ms", None, f"{size / seconds / TB:.3g} TB/s")
    table.add("host time of a pass", host_seconds(lambda: made.run(tensors)) * 1e3, "ms", None, "queued")
    table.add(
        "lanes and statistics as arrays on the host",
        wall_seconds(lambda: made.run(tensors).measured()) * 1e3,
        "ms",
    )
    table.add(
        "18,867 values on the host",
        wall_seconds(lambda: made.run(tensors).read()) * 1e3,
        "ms",
        None,
        "Python objects",
    )
