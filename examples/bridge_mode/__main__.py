"""A bridge-mode run on this machine: a real SGLang server, and a Megatron trainer under torchrun that pushes to it.

    python -m examples.bridge_mode --tp 2 --pp 2 --ep 2

Exit status: 0 consistent, 1 findings, 2 could not be done.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from bridge_plugins.errors import BridgePluginsError, EngineError, UsageError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Process, Run, ended_by_signals
from bridge_plugins.patches import cpu
from bridge_plugins.topology import ModelSizes, Topology
from examples.bridge_mode import faults
from examples.bridge_mode.messages import Outcome, Settings

ENGINE_START_SECONDS = 300
RUN_SECONDS = 1800

app = typer.Typer(add_completion=False)


@app.command()
def demo(
    tp: Annotated[int, typer.Option(help="Tensor parallel size.")] = 2,
    pp: Annotated[int, typer.Option(help="Pipeline stages.")] = 2,
    vpp: Annotated[int, typer.Option(help="Virtual stages (chunks) per pipeline stage.")] = 1,
    cp: Annotated[int, typer.Option(help="Context parallel size.")] = 1,
    ep: Annotated[int | None, typer.Option(help="Expert parallel size.  [default: 2; 1 if dense]")] = None,
    etp: Annotated[int, typer.Option(help="Tensor parallel size of the experts.")] = 1,
    world: Annotated[int, typer.Option(help="Trainer ranks; 0: as few as the sizes need.")] = 0,
    stages: Annotated[str, typer.Option(help="Layers of each chunk, as in 3,1; empty: evenly.")] = "",
    engine_tp: Annotated[int, typer.Option(help="The engine's --tp-size.")] = 1,
    engine_ep: Annotated[int, typer.Option(help="The engine's --ep-size.")] = 1,
    model: Annotated[str, typer.Option(help="moe, dense, or an HF folder.")] = "moe",
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps between the two versions.")] = 3,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-3,
    bucket_mb: Annotated[float, typer.Option(help="Megabytes of one flattened bucket.")] = 0.5,
    fault: Annotated[str, typer.Option(help=f"Break the run: {', '.join(faults.FAULTS)}.")] = "",
    port: Annotated[int, typer.Option(help="The server's port; 0: a free one.")] = 0,
    keep: Annotated[bool, typer.Option(help="Keep the folder with logs and summaries.")] = False,
) -> None:
    """Train two versions, push each to a real engine, and prove that it serves them."""
    console = Console(highlight=False, soft_wrap=True)
    try:
        _require_packages()
        with ended_by_signals(), Run(keep) as run:
            folder = _checkpoint(model, run, console)
            sizes = _sizes(folder)
            ep = ep if ep is not None else (2 if sizes.experts else 1)
            topology = Topology(tp, pp, vpp, cp, ep, etp, world, None, _numbers(stages), engine_tp, engine_ep)
            _refuse_what_cannot_work(topology, sizes, fault)
            settings = Settings(
                checkpoint=str(folder),
                url="",
                folder=str(run.folder),
                topology=dataclasses.asdict(topology),
                steps=steps,
                learning_rate=learning_rate,
                bucket_bytes=int(bucket_mb * 1e6),
                fault=fault,
            )
            outcome = _run(run, topology, settings, port, console)
            if keep:
                console.print(f"kept       {run.folder}")
    except BridgePluginsError as error:
        console.print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as reason:
        console.print(
            f"interrupted{f' by {reason}' if str(reason) else ''}: everything is stopped", style="red"
        )
        raise typer.Exit(130) from None
    for finding in outcome.findings:
        console.print(f"finding    {finding}", markup=False)
    console.print(outcome.verdict, markup=False)
    raise typer.Exit(outcome.exit_status)


def _run(run: Run, topology: Topology, settings: Settings, port: int, console: Console) -> Outcome:
    started = time.perf_counter()
    server = start_server(run, Path(settings.checkpoint), topology, port=port, cpu=cpu.wanted())
    settings.url = server.engine.url
    console.print(
        f"engine     starting SGLang TP={topology.engine_tp} EP={topology.engine_ep} at {server.engine.url}, "
        f"log {server.process.log}"
    )
    file = run.folder / "settings.json"
    file.write_bytes(msgspec.json.encode(settings))
    trainer = run.start("trainer", _torchrun(topology.world, file), env={"OMP_NUM_THREADS": "1"}, quiet=False)
    console.print(f"trainer    starting {topology.world} ranks, logs {run.folder}/rank-*.log")
    server.wait(ENGINE_START_SECONDS, meanwhile=lambda: _refuse_if_ended(run, trainer))
    console.print(f"engine     ready after {time.perf_counter() - started:.0f} s, layout found out")
    try:
        status = trainer.wait(RUN_SECONDS)
    except subprocess.TimeoutExpired:
        raise EngineError(f"the trainer did not end in {RUN_SECONDS} s") from None
    outcome = run.folder / "outcome.json"
    if status != 0 or not outcome.exists():
        raise BridgePluginsError(_why(run, trainer, status))
    return msgspec.json.decode(outcome.read_bytes(), type=Outcome)


def _refuse_if_ended(run: Run, trainer: Process) -> None:
    status = trainer.status()
    if status is not None:
        raise BridgePluginsError(_why(run, trainer, status))


def _torchrun(world: int, settings: Path) -> list[str]:
    return [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(world),
        "-m", "examples.bridge_mode.trainer", str(settings),
    ]  # fmt: skip


def _why(run: Run, trainer: Process, status: int) -> str:
    """The first failing rank's own words: the others only report that it is gone."""
    failures = sorted(run.folder.glob("failure-*.txt"), key=lambda file: file.stat().st_mtime)
    if failures:
        rank = failures[0].stem.partition("-")[2]
        return f"rank {rank}: {failures[0].read_text().strip()} (--keep keeps the logs)"
    return f"the trainer ended with status {status}; its last lines:\n{trainer.last_lines()}"


def _checkpoint(model: str, run: Run, console: Console) -> Path:
    from examples.bridge_mode import checkpoint

    if model not in checkpoint.KINDS:
        if not (Path(model) / "config.json").is_file():
            raise UsageError(
                f"MODEL={model} is neither {' nor '.join(checkpoint.KINDS)} nor a folder with a config.json"
            )
        return Path(model).resolve()
    folder = run.folder / f"qwen3-{model}"
    checkpoint.make_checkpoint(model, folder)
    console.print(
        f"model      {folder.name}: random weights in bfloat16, tokenizer from {checkpoint.TEXT.name}"
    )
    return folder


def _require_packages() -> None:
    missing = [
        name for name in ("torch", "transformers", "megatron.bridge", "sglang") if not _installed(name)
    ]
    if missing:
        raise UsageError(
            f"{sys.executable} has no {', '.join(missing)}: run `make setup` and use .venv/bin/python"
        )


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _sizes(folder: Path) -> ModelSizes:
    from transformers import AutoConfig

    return ModelSizes.from_hf_config(AutoConfig.from_pretrained(folder))


def _refuse_what_cannot_work(topology: Topology, sizes: ModelSizes, fault: str) -> None:
    import torch

    broken = [str(violation) for violation in topology.violations(sizes)]
    if cpu.wanted() and topology.cp > 1:
        broken.append(f"context parallelism needs GPUs: CP={topology.cp}; try CP=1")
    gpus = 0 if cpu.wanted() else torch.cuda.device_count()
    if gpus and max(topology.world, topology.engine_tp) > gpus:
        broken.append(
            f"a GPU for each rank: WORLD={topology.world}, ENGINE_TP={topology.engine_tp}, GPUs={gpus}; "
            "try smaller sizes, or BRIDGE_PLUGINS_CPU=1"
        )
    if fault and fault not in faults.FAULTS:
        broken.append(f"FAULT={fault} is unknown; try {', '.join(faults.FAULTS)}")
    elif fault and (missing := faults.needs(fault, stages=topology.pp, experts=sizes.experts)):
        broken.append(missing)
    if broken:
        raise UsageError("\n       ".join(broken))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(",")) if text else ()
    except ValueError:
        raise UsageError(f"STAGES={text}: give the layers of each chunk, as in 3,1") from None


if __name__ == "__main__":
    app()
