"""One rank of the trainer: load, push version 1, train, push version 2. Started by torchrun, see `__main__`."""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from datetime import timedelta
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from rich.console import Console

import bridge_plugins
from bridge_plugins.audit import Expected, WeightAudit
from bridge_plugins.audit.table import layer_table
from bridge_plugins.engines.first_rank import on_first_rank
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sync import Synced, WeightSync
from bridge_plugins.errors import BridgePluginsError, EngineError
from bridge_plugins.parity import Sample, compare, sample
from bridge_plugins.parity.trainer import trainer_logprobs
from bridge_plugins.patches import cpu
from bridge_plugins.topology import Topology
from examples.bridge_mode import faults, model, training
from examples.bridge_mode.messages import Outcome, Settings

PROMPTS = ("Alice was beginning to", "There was nothing so very", "Down, down, down.", "The rabbit-hole went")
NEW_TOKENS = 16


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
    sync = WeightSync(
        audit, [engine_type(settings.url)] if rank == 0 else [], bucket_bytes=settings.bucket_bytes
    )

    def push(version: str, *, trained: bool) -> Synced:
        stream = trainer.bridge.export_hf_weights(trainer.chunks, show_progress=False)
        synced = sync.push(faults.break_stream(settings.fault, stream), version, trained=trained)
        _show(console, synced)
        if rank == 0:
            synced.summary.write(Path(settings.folder) / f"summary-{version}.json")
        return synced

    _wait_for_engines(sync)
    synced = push("1", trained=False)
    if synced.verdict.word == "consistent":
        _show_parity(console, sync, trainer, checkpoint)
        data = training.batches(checkpoint)
        for number in range(1, settings.steps + 1):
            loss, norm = training.step(trainer, data, torch.cuda.current_device())
            console.print(f"training   step {number}/{settings.steps}  loss={loss:.4f} grad_norm={norm:.3f}")
        synced = push("2", trained=settings.steps > 0)
        _show_parity(console, sync, trainer, checkpoint)
    verdict = synced.verdict
    return Outcome(str(verdict), verdict.exit_status, [str(finding) for finding in verdict.findings])


def _wait_for_engines(sync: WeightSync, seconds: float = 300) -> None:
    """The engine starts beside us; the launcher watches it and ends us if it dies."""
    limit = time.monotonic() + seconds
    while not all(engine.healthy() for engine in sync.engines):
        if time.monotonic() > limit:
            raise EngineError(f"{sync.engines[0].url} was not ready in {seconds:.0f} s")
        time.sleep(0.5)
    dist.barrier()


def _show(console: Console, synced: Synced) -> None:
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


def _show_parity(console: Console, sync: WeightSync, trainer: model.Trainer, checkpoint: Path) -> None:
    def ask_engine() -> list[Sample]:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        prompts = [tokenizer(prompt)["input_ids"] for prompt in PROMPTS]
        return sample(sync.engines[0], prompts, new_tokens=NEW_TOKENS)

    samples = on_first_rank(ask_engine)
    console.print(str(compare(samples, trainer_logprobs(trainer.chunks, [one.tokens for one in samples]))))


def main() -> None:
    """Join the other ranks, run, and leave one clear line behind if it fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=Path)
    settings = msgspec.json.decode(parser.parse_args().settings.read_bytes(), type=Settings)
    rank = int(os.environ["RANK"])
    folder = Path(settings.folder)
    # One voice: rank 0 speaks; everything else, libraries' chatter too, goes to a file of its own.
    voice = os.fdopen(os.dup(1), "w") if rank == 0 else open(os.devnull, "w")  # noqa: SIM115, PTH123
    log = os.open(folder / f"rank-{rank}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    console = Console(file=voice, highlight=False, soft_wrap=True, width=100)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    try:
        bridge_plugins.load()
        if not cpu.wanted():
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group(
            "gloo" if cpu.wanted() else "cpu:gloo,cuda:nccl", timeout=timedelta(minutes=5)
        )
        outcome = run(settings, console)
        if rank == 0:
            (folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
        dist.barrier()
        dist.destroy_process_group()
    except BaseException as error:
        # What we raise says it in one line; of anything else its first line, the rest is in the log.
        kind = "" if isinstance(error, BridgePluginsError) else f"{type(error).__name__}: "
        (folder / f"failure-{rank}.txt").write_text(f"{kind}{next(iter(str(error).splitlines()), '')}\n")
        raise
    finally:
        voice.flush()


if __name__ == "__main__":
    main()
    sys.exit(0)
