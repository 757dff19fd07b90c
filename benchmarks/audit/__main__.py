"""What the audit adds to each tensor of a push, on a model of 18,867: ``python -m benchmarks.audit [--device cuda]``."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.audit.model import tensors
from benchmarks.fingerprint.report import Report
from bridge_plugins.audit import Expected, Record, WeightAudit
from bridge_plugins.engines.sglang.buckets import buckets
from bridge_plugins.engines.sglang.push import Watch
from bridge_plugins.engines.sglang.wire import Bucket
from bridge_plugins.fingerprint import FingerprintStream, fingerprint_many
from bridge_plugins.layout.sources import Source

RESULTS = Path(__file__).parents[1] / "results"
BUCKET = 1 << 20  #: bytes: as many buckets as a push of the whole model has of 1 GiB
ROUNDS = 3

Weights = dict[str, Tensor]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", action="store_true", help=f"write the numbers to {RESULTS.name}/")
    options = parser.parse_args()
    report = Report.here(options.device)
    measure(report, tensors(options.device))
    print(report.text())
    if options.keep:
        report.save(RESULTS / f"audit_{report.device}.json")


def measure(report: Report, weights: Weights) -> None:
    """Versions of one model, each trained since the last: exported and sent, with the audit off and on in turn."""
    audit = WeightAudit("random", expected=_expected(weights))
    recorder = FingerprintStream()
    times: dict[str, list[float]] = {
        name: [] for name in ("export", "read", "watched", "push", "audited push", "finish")
    }
    for version in range(ROUNDS + 1):
        if version:
            _train(weights)
        times["export"].append(_seconds(lambda: _drain(weights.items())))
        times["read"].append(_seconds(lambda: _read(recorder, weights)))
        recorder.read()
        times["push"].append(_seconds(lambda: _send(weights)))
        times["watched"].append(_seconds(lambda: _drain(audit.watch(weights.items()))))
        times["audited push"].append(_seconds(lambda: _send(weights, audit.watch_buckets)))
        times["finish"].append(_seconds(lambda: audit.finish(str(version), trained=version > 0)))  # noqa: B023
    table = report.table(f"{len(weights):,} tensors, µs each, of {_mean(weights):.0f} bytes")
    first = {name: seconds[0] / len(weights) * 1e6 for name, seconds in times.items()}
    later = {name: statistics.median(seconds[1:]) / len(weights) * 1e6 for name, seconds in times.items()}
    for name, one in (("first version", first), ("later versions", later)):
        table.add("a fingerprint as it passes, alone", one["read"] - one["export"], "µs", None, name)
        table.add("stream, one by one", one["watched"] - one["export"], "µs", None, name)
        table.add("stream and wire, in buckets", one["audited push"] - one["push"], "µs", None, name)
        table.add("records, roll-up and rules", one["finish"], "µs", None, name)


def _expected(weights: Weights) -> Expected:
    found = zip(weights.items(), fingerprint_many(weights.values()), strict=True)
    records = {name: Record.of(name, tuple(t.shape), t.nbytes, taken) for (name, t), taken in found}
    return Expected("memory", {n: Source(n, r.shape, r.dtype) for n, r in records.items()}, records)


def _train(weights: Weights) -> None:
    torch._foreach_mul_(list(weights.values()), 1.5)


def _read(recorder: FingerprintStream, weights: Weights) -> None:
    for _, tensor in weights.items():
        recorder.add(tensor)


def _send(weights: Weights, watch: Watch = iter) -> None:
    for bucket in watch(buckets(weights.items(), BUCKET)):
        Bucket(bucket)


def _drain(stream: Iterable[object]) -> None:
    for item in stream:
        del item


def _seconds(act: Callable[[], object]) -> float:
    """On a GPU wall time until all is done; else this thread's own, in which others on the machine don't count."""
    gc.collect()
    if not torch.cuda.is_available():
        started = time.thread_time()
        act()
        return time.thread_time() - started
    torch.cuda.synchronize()
    started = time.perf_counter()
    act()
    torch.cuda.synchronize()
    return time.perf_counter() - started


def _mean(weights: Weights) -> float:
    return sum(tensor.nbytes for tensor in weights.values()) / len(weights)


if __name__ == "__main__":
    main()
