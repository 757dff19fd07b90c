"""Megatron Bridge and SGLang on one GPU, at the true sizes of a public model, audited and read back.

    python -m examples.one_gpu --model qwen3-30b-a3b --layers 48

Exit status: 0 consistent, 1 findings, 2 could not be done.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bridge_plugins.errors import UsageError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Run, ended_by_signals
from bridge_plugins.patches import cpu
from bridge_plugins.topology import Topology
from examples.bridge_mode import faults, transports
from examples.bridge_mode.launching import conclude, launch
from examples.bridge_mode.messages import Outcome
from examples.bridge_mode.transports import TRANSPORTS
from examples.one_gpu import adapters
from examples.one_gpu.models import MODELS, make_shapes
from examples.one_gpu.settings import OneGpuSettings
from examples.one_gpu.sleep import ENGINE_ARGUMENTS as ENGINE_SLEEP

app = typer.Typer(add_completion=False)

# The trainer gets the other half: the engine's share is counted from what is free when it starts.
ENGINE_ARGUMENTS = (
    "--attention-backend", "triton", "--sampling-backend", "pytorch",
    "--moe-runner-backend", "triton", "--grammar-backend", "none", "--mem-fraction-static", "0.48",
    "--max-total-tokens", "16384", "--max-running-requests", "32",
)  # fmt: skip


@app.command()
def one_gpu(
    model: Annotated[str, typer.Option(help=f"{', '.join(MODELS)}, or an HF folder.")] = "qwen3-30b-a3b",
    layers: Annotated[int, typer.Option(min=0, help="How many layers; 0: all of them.")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps; 0: change the weights in place.")] = 0,
    learning_rate: Annotated[float, typer.Option(help="Of Adam.")] = 1e-5,
    bucket_mb: Annotated[float, typer.Option(help="Megabytes of one flattened bucket.")] = 1024,
    repeats: Annotated[int, typer.Option(min=0, help="How often each part is measured; 0: not.")] = 3,
    results: Annotated[str, typer.Option(help="Write the measurements to this JSON file.")] = "",
    lora: Annotated[
        str, typer.Option(help="Train adapters: merged into the base, or unmerged: the engine applies them.")
    ] = "",
    sleep: Annotated[bool, typer.Option(help="At the end, let the engine sleep and wake.")] = False,
    fault: Annotated[str, typer.Option(help=f"Break the run: {', '.join(faults.FAULTS)}.")] = "",
    transport: Annotated[
        str, typer.Option(help=f"How the weights travel: {', '.join(TRANSPORTS)}.")
    ] = "from-tensor",
    engine_arguments: Annotated[str, typer.Option(help="More arguments for SGLang, in one string.")] = "",
    engine_python: Annotated[
        str, typer.Option(help="Python of the engine's environment, if it has its own.")
    ] = sys.executable,
    port: Annotated[int, typer.Option(help="The server's port; 0: a free one.")] = 0,
    keep: Annotated[bool, typer.Option(help="Keep the folder with logs.")] = False,
) -> None:
    """Push two versions from Megatron to SGLang on one GPU, prove them, and measure what that costs."""
    console = Console(highlight=False, soft_wrap=True)

    def work() -> Outcome:
        _refuse(fault, random=model in MODELS)
        adapters.refuse(lora)
        transports.refuse(transport)
        with ended_by_signals(), Run(keep) as run:
            folder, random = _folder(model, layers, run, console)
            topology = Topology(sp=False)
            settings = OneGpuSettings(
                checkpoint=str(folder), url="", folder=str(run.folder), topology=dataclasses.asdict(topology),
                steps=steps, learning_rate=learning_rate, bucket_bytes=int(bucket_mb * 1e6), fault=fault,
                train=steps > 0, repeats=repeats, random=random, results=results,
                sleep=sleep, lora=lora, transport=transport,
            )  # fmt: skip
            options = [
                "--skip-tokenizer-init",  # a model of ours has no tokenizer
                *(() if cpu.wanted() else ENGINE_ARGUMENTS),
                *(("--load-format", "dummy") if random else ()),
                *(ENGINE_SLEEP if sleep else ()),
                *(adapters.ENGINE_ARGUMENTS if lora == "unmerged" else ()),
                *engine_arguments.split(),
            ]
            server = start_server(
                run, folder, topology, port=port, cpu=cpu.wanted(), python=engine_python, options=options
            )
            outcome = launch(run, server, settings, "examples.one_gpu.trainer", console)
            if keep:
                console.print(f"kept       {run.folder}")
            return outcome

    conclude(work, console)


def _refuse(fault: str, *, random: bool) -> None:
    """One stage and no checkpoint with data leave nothing that some faults could be told from."""
    possible = [one for one in faults.FAULTS if not faults.needs(one, stages=1, experts=1)]
    if random:
        # Weights that were made in Megatron are what its export says they are.
        possible = [one for one in possible if one in ("drop-layer", "stale-engine")]
    if fault and fault not in possible:
        why = (
            "weights made on the spot have no checkpoint to be held against"
            if random
            else "there is one stage"
        )
        raise UsageError(f"--fault {fault} can't be seen here ({why}); try {', '.join(possible)}")


def _folder(model: str, layers: int, run: Run, console: Console) -> tuple[Path, bool]:
    """The model's folder, and whether its weights are to be made on the spot."""
    if model in MODELS:
        folder = run.folder / model
        make_shapes(model, layers, folder)
        console.print(f"model      {model}: true sizes, random weights made on the GPU")
        return folder, True
    if not (Path(model) / "config.json").is_file():
        raise UsageError(f"--model {model} is neither {', '.join(MODELS)} nor a folder with a config.json")
    if layers:
        raise UsageError("--layers cuts a model of ours; an HF folder has the layers that it has")
    return Path(model).resolve(), False


if __name__ == "__main__":
    app()
