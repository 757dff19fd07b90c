"""What each part of a version costs, with the audit off and on in turn, beside SGLang's own checksum in the same run."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from torch import Tensor

from bridge_plugins.audit import Summary
from bridge_plugins.audit.summary import package_versions
from bridge_plugins.engines.sglang.comparison import compare
from bridge_plugins.engines.sglang.push import Watch, push
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.fingerprint import FingerprintTable, Part
from examples.bridge_mode.model import Trainer

Export = Callable[[], Iterator[tuple[str, Tensor]]]


def all_of_it(
    trainer: Trainer, sync: WeightSync, export: Export, summary: Summary, repeats: int
) -> dict[str, Any]:
    """Seconds of each part, `repeats` times each, after one that warms up. `summary` is of the version that is served."""
    engine, audit = sync.engines[0], sync.audit

    def send(watch: Watch = iter) -> None:
        push(export(), [engine], transport=sync.transport, bucket_bytes=sync.bucket_bytes, watch=watch)

    def export_fresh() -> None:
        _drain(trainer.bridge.export_hf_weights(trainer.chunks, cpu=False, show_progress=False))

    free_before = _free()
    seconds = {
        "export, tasks made anew": _times(1, export_fresh),
        "export, tasks kept": [],
        "export, audited": [],
        "push": [],
        "push, audited": [],
        "roll-up and rules": [],
    }
    for _ in range(repeats + 1):
        # In turn, so that a machine that gets slower or faster meanwhile does so for both.
        seconds["export, tasks kept"] += _times(1, lambda: _drain(export()))
        seconds["export, audited"] += _times(1, lambda: _drain(audit.watch(export())))
        audit.finish("measured")
        seconds["push"] += _times(1, send)
        seconds["push, audited"] += _times(1, lambda: send(audit.watch_buckets))
        seconds["roll-up and rules"] += _times(1, lambda: audit.finish("measured"))
    free_push = _free()
    comparisons = []
    seconds["readback until the verdict"] = _times(
        repeats + 1,
        lambda: comparisons.append(compare(summary, engine.url, read_back(engine, summary), None)),
    )
    free_readback = _free()
    seconds |= _at_rest(export, repeats)
    if torch.cuda.is_available():  # it has no path for a CPU
        seconds["SGLang's own checksum"] = _times(repeats + 1, engine.checksum)
    last = comparisons[-1]
    return {
        "tensors": len(summary.records),
        "nbytes": sum(record.nbytes for record in summary.records.values()),
        "mismatched": len(last.mismatched),
        "compared_bytes": last.compared_bytes,
        "total_bytes": last.total_bytes,
        # The first of each compiles and allocates.
        "seconds": {name: times[1:] or times for name, times in seconds.items()},
        "first_seconds": {name: times[0] for name, times in seconds.items()},
        "device_bytes_added": {
            "pushes": free_before - free_push,
            "readbacks": free_push - free_readback,
        },
    }


def _at_rest(export: Export, repeats: int) -> dict[str, list[float]]:
    """The trainer's exported tensors in one table: held for this alone, where they are views of the model's own."""
    tensors = [tensor for _, tensor in export()]
    table = FingerprintTable([Part(tensor) for tensor in tensors])
    return {
        "fingerprint of the trainer's tensors, with statistics": _times(
            repeats + 1, lambda: table.run(tensors).measured()
        )
    }


def _drain(stream: Iterable[object]) -> None:
    for item in stream:
        del item


def _times(count: int, act: Callable[[], object]) -> list[float]:
    times = []
    for _ in range(count):
        _wait()
        started = time.perf_counter()
        act()
        _wait()
        times.append(time.perf_counter() - started)
    return times


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _free() -> int:
    """Bytes free on the whole card, other processes' included, once nothing is cached any more."""
    if not torch.cuda.is_available():
        return 0
    _wait()
    torch.cuda.empty_cache()
    torch.cuda.ipc_collect()  # type: ignore[no-untyped-call]
    return int(torch.cuda.mem_get_info()[0])


def show(console: Console, found: dict[str, Any]) -> None:
    """One row a part: the median, and what share of a push it is."""
    table = Table(
        title=f"{found['tensors']:,} tensors, {found['nbytes'] / 1e9:.2f} GB",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    for column in ("", "median ms", "of a push", "first ms"):
        table.add_column(column, justify="left" if not column else "right", no_wrap=True)
    one_push = statistics.median(found["seconds"]["push"])
    for name, times in found["seconds"].items():
        median = statistics.median(times)
        table.add_row(
            name,
            f"{median * 1e3:,.1f}",
            f"{median / one_push:.3f}",
            f"{found['first_seconds'][name] * 1e3:,.1f}",
        )
    console.print(table)
    added = ", ".join(f"{what} {count / 1e6:.1f} MB" for what, count in found["device_bytes_added"].items())
    console.print(f"memory     added on the device: {added}")


def write(path: Path, found: dict[str, Any], config: Any) -> None:
    """Keep the numbers with hardware, versions and date."""
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps(
            {
                "date": datetime.now(timezone.utc).date().isoformat(),
                "device": device,
                "layers": config.num_layers,
                "packages": package_versions(),
                **found,
            },
            indent=1,
        )
    )
