"""One rank of the trainer: load, push version 1, train, push version 2. Started by torchrun, see `__main__`."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from rich.console import Console

from bridge_plugins.audit import Expected, Finding, WeightAudit
from bridge_plugins.audit.table import layer_table
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sync import Synced, WeightSync
from bridge_plugins.errors import EngineError
from bridge_plugins.parity import ParityProbe
from bridge_plugins.parity.reference import tokenize
from bridge_plugins.patches import cpu
from bridge_plugins.topology import Topology
from examples.bridge_mode import faults, model, training
from examples.bridge_mode.messages import Outcome, Settings
from examples.bridge_mode.rank import as_rank
from examples.bridge_mode.transports import TRANSPORTS

PROMPTS = ("Alice was beginning to", "There was nothing so very", "Down, down, down.", "The rabbit-hole went")


def run(settings: Settings, console: Console) -> Outcome:
    """The whole of one rank's work."""
    topology = Topology(**{**settings.topology, "stages": tuple(settings.topology["stages"])})
    rank, checkpoint = dist.get_rank(), Path(settings.checkpoint)
    started = time.perf_counter()
    trainer = model.build(checkpoint, topology, learning_rate=settings.learning_rate)
    console.print(f"trainer    {topology} over {dist.get_backend()}; {cpu.describe()}")
    console.print(
        f"trainer    loaded {checkpoint.name} through the bridge in {time.perf_counter() - started:.1f} s"
    )
    layers = trainer.chunks[0].config.num_layers
    if settings.fault:
        console.print(f"FAULT      {settings.fault}: {faults.FAULTS[settings.fault]}", style="yellow")
        faults.break_bridge(settings.fault, trainer, layers)

    engine_type = faults.StaleEngine if settings.fault == "stale-engine" else Engine
    audit = WeightAudit(
        model=checkpoint.name,
        topology=str(topology),
        expected=Expected.from_folder(checkpoint) if rank == 0 else None,
    )
    transport = TRANSPORTS[settings.transport](Path(settings.folder))
    sync = WeightSync(
        audit,
        [engine_type(settings.url)] if rank == 0 else [],
        bucket_bytes=settings.bucket_bytes,
        transport=transport,
    )

    prompts = tokenize(checkpoint, PROMPTS) if rank == 0 else []
    probe = ParityProbe(trainer.chunks, prompts, sync.engines)

    def push(version: str, *, trained: bool) -> Synced:
        stream = trainer.bridge.export_hf_weights(trainer.chunks, show_progress=False)
        synced = sync.push(faults.break_stream(settings.fault, stream), version, trained=trained)
        show(console, synced)
        if rank == 0:
            synced.summary.write(Path(settings.folder) / f"summary-{version}.json")
        return synced

    def measure(version: str) -> tuple[Finding, ...]:
        report = probe.measure(version)
        for parity in report.engines.values():
            console.print(f"parity     {parity}")
        return report.findings

    wait_for_engines(sync.engines)
    synced = push("1", trained=False)
    apart: tuple[Finding, ...] = ()
    if synced.verdict.word == "consistent":
        apart = measure("1")
        data = training.batches(checkpoint)
        for number in range(1, settings.steps + 1):
            loss, norm = training.step(trainer, data, torch.cuda.current_device())
            console.print(f"training   step {number}/{settings.steps}  loss={loss:.4f} grad_norm={norm:.3f}")
        synced = push("2", trained=settings.steps > 0)
        apart += measure("2")
    transport.close()
    verdict = dataclasses.replace(synced.verdict, findings=(*synced.verdict.findings, *apart))
    return Outcome(
        str(verdict), verdict.exit_status, [str(finding) for finding in verdict.findings if finding.counts]
    )


def outcome(verdict: Verdict) -> Outcome:
    """What the launcher shows at the end."""
    notes = [str(finding) for finding in verdict.findings if finding.severity == "info"]
    findings = [str(finding) for finding in verdict.findings if finding.severity != "info"]
    return Outcome(str(verdict), verdict.exit_status, findings, notes)


def wait_for_engines(engines: Sequence[Engine], seconds: float = 300) -> None:
    """The engine starts beside us; the launcher watches it and ends us if it dies."""
    limit = time.monotonic() + seconds
    while not all(engine.healthy() for engine in engines):
        if time.monotonic() > limit:
            raise EngineError(f"{engines[0].url} was not ready in {seconds:.0f} s")
        time.sleep(0.5)
    dist.barrier()


def show(console: Console, synced: Synced) -> None:
    pushed, summary = synced.pushed, synced.summary
    suspects = {name for finding in synced.verdict.findings for name in finding.names}
    console.print(layer_table(summary, suspects))
    rate = f"{pushed.nbytes / 1e6:.1f} MB in {pushed.buckets} buckets, {pushed.seconds:.2f} s"
    console.print(f"push       version {summary.header.version}: {pushed.tensors} tensors, {rate}")
    for comparison in synced.comparisons:
        covered = f"{comparison.compared_bytes:,} of {comparison.total_bytes:,} bytes compared"
        console.print(
            f"readback   {comparison.engine}: {len(comparison.mismatched)} of {comparison.tensors} tensors differ, {covered}"
        )
        for reason in sorted(set(comparison.not_compared.values())):
            console.print(f"readback   not compared: {reason}")


if __name__ == "__main__":
    as_rank(run, Settings)
    sys.exit(0)
