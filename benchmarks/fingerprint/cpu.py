"""The fingerprint on a CPU, beside hashes of bytes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable

import numpy as np
import torch

from benchmarks.fingerprint import shapes
from benchmarks.fingerprint.report import Report
from benchmarks.fingerprint.timing import Clock, best_seconds, best_seconds_in_turn
from bridge_plugins.fingerprint import FingerprintTable, Part
from bridge_plugins.fingerprint.cpu.run import cores, measure
from bridge_plugins.fingerprint.formats import format_of
from bridge_plugins.fingerprint.geometry import geometry
from bridge_plugins.fingerprint.part import resolve

ROWS, COLS = 65536, 2048  # bfloat16: 256 MiB
ROUNDS = 15


def run(report: Report) -> None:
    """All CPU tables."""
    one_tensor(report)
    dtypes(report)
    many_small(report)


def one_tensor(report: Report) -> None:
    """One large tensor on one core and on all."""
    tensor = torch.empty((ROWS, COLS), dtype=torch.bfloat16).normal_(0, 0.02)
    words = tensor.view(torch.int64).numpy().view(np.uint64)
    data = memoryview(words).cast("B")
    table = report.table("One tensor, bfloat16, 256 MiB", "NumPy's 64-bit sum of the same memory, one core")
    calls: dict[str, tuple[Callable[[], object], Clock]] = {"64-bit sum": (words.sum, time.thread_time)}
    for threads in sorted({1, cores()}):
        for statistics in (False, True):
            what = _what("fingerprint", statistics) + f", {threads} core{'s' * (threads > 1)}"
            clock = time.thread_time if threads == 1 else time.perf_counter
            calls[what] = (pass_over(tensor, threads=threads, statistics=statistics), clock)
    calls["64-bit sum, again"] = (words.sum, time.thread_time)
    rates = {
        what: tensor.nbytes / seconds / 1e9 for what, seconds in best_seconds_in_turn(calls, ROUNDS).items()
    }
    best = rates["64-bit sum"]
    for what, rate in rates.items():
        table.add(what, rate, "GB/s", rate / best)
    for name, digest in byte_hashes().items():
        if digest is None:
            table.add(name, float("nan"), "GB/s", None, "not installed")
            continue
        rate = tensor.nbytes / best_seconds(lambda digest=digest: digest(data), 3) / 1e9  # type: ignore[misc]
        table.add(name, rate, "GB/s", rate / best)


def pass_over(tensor: torch.Tensor, *, threads: int, statistics: bool) -> Callable[[], object]:
    """A pass over a tensor at rest, ready to be timed."""
    table = geometry([resolve(Part(tensor))])
    held = format_of(tensor.dtype)
    return lambda: measure(table, held, held, statistics=statistics, threads=threads)


def byte_hashes() -> dict[str, Callable[[memoryview], object] | None]:
    """Hashes of bytes that others use; None for one that isn't installed."""
    hashes: dict[str, Callable[[memoryview], object] | None] = {"xxh3-128": None, "BLAKE3, 1 core": None}
    try:
        import xxhash

        hashes["xxh3-128"] = lambda data: xxhash.xxh3_128(data).digest()
    except ImportError:
        pass
    try:
        import blake3

        hashes["BLAKE3, 1 core"] = lambda data: blake3.blake3(data).digest()
    except ImportError:
        pass
    return hashes | {
        "BLAKE2b": lambda data: hashlib.blake2b(data).digest(),
        "SHA-256": lambda data: hashlib.sha256(data).digest(),
    }


def dtypes(report: Report) -> None:
    """Other dtypes, and blocks that aren't runs of words."""
    table = report.table("Other dtypes and layouts, 64 Mi elements, 1 core")
    source = torch.empty((8192, 8192), dtype=torch.float32).normal_(0, 0.02)
    for dtype in (torch.float32, torch.float16, torch.float8_e4m3fn, torch.int8, torch.float64):
        tensor = source.to(dtype)
        for statistics in (False, True):
            rate = tensor.nbytes / best_seconds(pass_over(tensor, threads=1, statistics=statistics), 2) / 1e9
            table.add(_what(str(dtype).removeprefix("torch."), statistics), rate, "GB/s")
    views = {
        "bfloat16, a TP half of the columns": source.bfloat16()[:, :4096],
        "bfloat16, transposed store": source.bfloat16().t(),
        "bfloat16, rows of 4 words": source.bfloat16().view(-1, 8),
    }
    for what, view in views.items():
        for statistics in (False, True):
            bytes_read = view.numel() * view.element_size()
            rate = bytes_read / best_seconds(pass_over(view, threads=1, statistics=statistics), 2) / 1e9
            table.add(_what(what, statistics), rate, "GB/s")


def many_small(report: Report) -> None:
    """The tensors of a large model, scaled down: what remains is the cost of each."""
    tensors = shapes.weights(shapes.narrowed(shapes.whole(), 32), "cpu")
    tensors = [t for t in tensors if t.nbytes < 1 << 16]  # without the vocabulary, whose bytes would count
    parts = [Part(tensor) for tensor in tensors]
    size = shapes.total_bytes(tensors)
    table = report.table(
        f"{len(tensors):,} small tensors at rest ({size / len(tensors):.0f} bytes on average)"
    )
    held = format_of(torch.bfloat16)
    blocks = geometry([resolve(part) for part in parts])
    for statistics in (False, True):
        seconds = best_seconds(lambda s=statistics: measure(blocks, held, held, statistics=s, threads=1))  # type: ignore[misc]
        table.add(_what("the pass, 1 core", statistics), seconds / len(tensors) * 1e6, "µs/tensor")
    tiny = geometry([resolve(Part(torch.ones(2, dtype=torch.bfloat16))) for _ in tensors])
    seconds = best_seconds(lambda: measure(tiny, held, held, threads=1))
    table.add("as many of 2 elements, 1 core, all statistics", seconds / len(tensors) * 1e6, "µs/tensor")
    made = FingerprintTable(parts)
    seconds = best_seconds(lambda: made.run(tensors), 3, time.perf_counter)
    table.add("the pass with pointers refreshed, all cores", seconds / len(tensors) * 1e6, "µs/tensor")
    pending = made.run(tensors)
    seconds = best_seconds(pending.read, 3)
    table.add("numbers to values", seconds / len(tensors) * 1e6, "µs/tensor", None, "once per version")
    seconds = best_seconds(lambda: FingerprintTable(parts), 1)
    table.add("making the table", seconds / len(tensors) * 1e6, "µs/tensor", None, "once per run")


def _what(what: str, statistics: bool) -> str:
    return what + (", all statistics" if statistics else "")
