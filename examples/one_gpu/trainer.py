"""The trainer on the GPU that it shares with the engine: push, measure, change the weights, push again."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rich.console import Console
from torch import Tensor

from bridge_plugins.audit import Expected, WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sync import Synced, WeightSync
from bridge_plugins.parity import compare, sample
from bridge_plugins.parity.trainer import trainer_scores
from bridge_plugins.patches import cpu
from bridge_plugins.topology import Topology
from examples.bridge_mode import faults, model, training
from examples.bridge_mode.messages import Outcome
from examples.bridge_mode.rank import as_rank
from examples.bridge_mode.trainer import outcome, show, wait_for_engines
from examples.bridge_mode.transports import TRANSPORTS
from examples.one_gpu import adapters, measure, sleep, weights
from examples.one_gpu.settings import OneGpuSettings

PROMPTS, PROMPT_TOKENS, NEW_TOKENS = 4, 32, 16


def run(settings: OneGpuSettings, console: Console) -> Outcome:
    """The whole of the trainer's work."""
    topology = Topology(**{**settings.topology, "stages": tuple(settings.topology["stages"])})
    checkpoint = Path(settings.checkpoint)
    engine = (faults.StaleEngine if settings.fault == "stale-engine" else Engine)(settings.url)
    # First the engine: it counts what it may take from what is free when it starts.
    wait_for_engines([engine])
    started = time.perf_counter()
    trainer = model.build(
        checkpoint,
        topology,
        learning_rate=settings.learning_rate,
        train=settings.train,
        fill=weights.fill if settings.random else None,
        adapt=adapters.add(settings.lora),
    )
    console.print(f"trainer    {topology} over {dist.get_backend()}; {cpu.describe()}")
    console.print(f"trainer    {checkpoint.name} built in {time.perf_counter() - started:.1f} s")
    config = trainer.chunks[0].config
    if settings.fault:
        console.print(f"FAULT      {settings.fault}: {faults.FAULTS[settings.fault]}", style="yellow")
        faults.break_bridge(settings.fault, trainer, config.num_layers)
    audit = WeightAudit(
        model=checkpoint.name,
        topology=str(topology),
        expected=Expected.from_folder(checkpoint, fingerprints=not settings.random),
    )
    transport = TRANSPORTS[settings.transport](Path(settings.folder))
    sync = WeightSync(audit, [engine], bucket_bytes=settings.bucket_bytes, transport=transport)
    served_adapter = (
        adapters.ServedAdapter(trainer, engine, Path(settings.folder))
        if settings.lora == "unmerged"
        else None
    )
    # Worked out once: names and groups of the conversion don't change between versions.
    tasks = trainer.bridge.get_conversion_tasks(trainer.chunks)

    def export() -> Iterator[tuple[str, Tensor]]:
        return adapters.plain_names(
            trainer.bridge.export_hf_weights(
                trainer.chunks, cpu=False, show_progress=False, conversion_tasks=tasks,
                merge_adapter_weights=not served_adapter,
            )
        )  # fmt: skip

    vocabulary = trainer.bridge.hf_pretrained.config.vocab_size

    def push(version: str, *, trained: bool) -> Synced:
        stream = faults.break_stream(settings.fault, export())
        synced = sync.push(stream, version, trained=trained)
        show(console, synced)
        if synced.verdict.word == "consistent":
            if served_adapter:
                served_adapter.replace(version)
                console.print(
                    f"adapters   {served_adapter.name}: the engine applies them; they are not compared"
                )
            adapter = served_adapter.name if served_adapter else ""
            _show_parity(console, engine, trainer.chunks, vocabulary, adapter)
        return synced

    synced = push("1", trained=False)
    if synced.verdict.word == "consistent":
        _change(settings, console, trainer, vocabulary)
        synced = push("2", trained=not served_adapter)  # the base beside adapters is frozen
        if settings.repeats:
            found = measure.all_of_it(trainer, sync, export, synced.summary, settings.repeats)
            measure.show(console, found)
            if settings.results:
                measure.write(Path(settings.results), found, config)
        if settings.sleep:
            sleep.sleep_and_wake(console, sync, export, synced.summary)
    transport.close()
    return outcome(synced.verdict)


def _change(settings: OneGpuSettings, console: Console, trainer: model.Trainer, vocabulary: int) -> None:
    if not settings.train:
        weights.nudge(trainer.chunks)
        console.print("training   no room for an optimizer: every weight changed a little in place")
        return
    data = _random_batches(vocabulary)
    for number in range(1, settings.steps + 1):
        loss, norm = training.step(trainer, data, torch.cuda.current_device())
        console.print(f"training   step {number}/{settings.steps}  loss={loss:.4f} grad_norm={norm:.3f}")


def _random_batches(vocabulary: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(2)
    while True:
        yield torch.randint(vocabulary, (training.BATCH, training.LENGTH), generator=generator)


def _show_parity(console: Console, engine: Engine, chunks: list[Any], vocabulary: int, adapter: str) -> None:
    generator = torch.Generator().manual_seed(3)
    prompts = torch.randint(vocabulary, (PROMPTS, PROMPT_TOKENS), generator=generator).tolist()
    samples = sample(engine, prompts, new_tokens=NEW_TOKENS, adapter=adapter)
    console.print(f"parity     {compare(samples, trainer_scores(chunks, samples))}")


if __name__ == "__main__":
    as_rank(run, OneGpuSettings)
    sys.exit(0)
