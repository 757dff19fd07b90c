"""The engine sleeps: it gives the memory of its weights away, and takes other memory when it wakes. Nothing of it is a
version until all of it was pushed again, and what is missing is found."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rich.console import Console
from torch import Tensor

from bridge_plugins.audit import Summary
from bridge_plugins.engines.sglang.comparison import Comparison, compare
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.errors import EngineError
from examples.bridge_mode import faults

#: What the server must be started with.
ENGINE_ARGUMENTS = ("--enable-memory-saver",)


def sleep_and_wake(
    console: Console, sync: WeightSync, export: Callable[[], Iterator[tuple[str, Tensor]]], summary: Summary
) -> None:
    """Let the engine sleep and wake, push all but a layer, and push all. `summary` is of what the trainer holds.

    Raises `EngineError` if a readback says anything but what must be so.
    """
    (engine,) = sync.engines

    def served(what: str, wrong: set[str]) -> Comparison:
        found = compare(summary, engine.url, read_back(engine, summary), None)
        console.print(f"sleep      {what}: {len(found.mismatched)} of {found.tensors} tensors differ")
        if set(found.mismatched) != wrong or found.not_compared:
            raise EngineError(f"{what}: {len(wrong)} tensors should differ, not {len(found.mismatched)}")
        return found

    engine.release_memory("weights")
    engine.resume_memory("weights")
    served("woke up", set(summary.records))
    push(
        faults.break_stream("drop-layer", export()),
        [engine],
        transport=sync.transport,
        bucket_bytes=sync.bucket_bytes,
    )
    missing = {name for name in summary.records if f".layers.{faults.LAYER}." in name}
    found = served(f"pushed all but layer {faults.LAYER}", missing)
    console.print(f"sleep      {found.findings[0]}")
    push(export(), [engine], transport=sync.transport, bucket_bytes=sync.bucket_bytes)
    served("pushed all", set())
