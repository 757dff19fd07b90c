"""A bridge-mode run on this machine: a real SGLang server, and a Megatron trainer under torchrun that pushes to it.

    python -m examples.bridge_mode --tp 2 --pp 2 --ep 2

Exit status: 0 consistent, 1 findings, 2 could not be done.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bridge_plugins.errors import UsageError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Run, ended_by_signals
from bridge_plugins.patches import cpu
from bridge_plugins.topology import ModelSizes, Topology, broken_rules
from examples.bridge_mode import faults, transports
from examples.bridge_mode.launching import conclude, launch
from examples.bridge_mode.messages import Outcome, Settings
from examples.bridge_mode.transports import TRANSPORTS

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
    transport: Annotated[
        str, typer.Option(help=f"How the weights travel: {', '.join(TRANSPORTS)}.")
    ] = "from-tensor",
    engine_arguments: Annotated[str, typer.Option(help="More arguments for SGLang, in one string.")] = "",
    port: Annotated[int, typer.Option(help="The server's port; 0: a free one.")] = 0,
    keep: Annotated[bool, typer.Option(help="Keep the folder with logs and summaries.")] = False,
) -> None:
    """Train two versions, push each to a real engine, and prove that it serves them."""
    console = Console(highlight=False, soft_wrap=True)

    def work() -> Outcome:
        _require_packages()
        transports.refuse(transport)
        with ended_by_signals(), Run(keep) as run:
            folder = _checkpoint(model, run, console)
            sizes = _sizes(folder)
            experts = ep if ep is not None else (2 if sizes.experts else 1)
            topology = Topology(
                tp, pp, vpp, cp, experts, etp, world, None, _numbers(stages), engine_tp, engine_ep
            )
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
                transport=transport,
            )
            server = start_server(
                run, folder, topology, port=port, cpu=cpu.wanted(), options=engine_arguments.split()
            )
            outcome = launch(run, server, settings, "examples.bridge_mode.trainer", console)
            if keep:
                console.print(f"kept       {run.folder}")
            return outcome

    conclude(work, console)


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

    broken = [str(violation) for violation in broken_rules(topology, sizes)]
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
