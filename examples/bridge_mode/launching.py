"""A server that was started, and the trainer's ranks beside it, until the trainer has its outcome."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import NoReturn

import msgspec
import typer
from rich.console import Console

from bridge_plugins.errors import BridgePluginsError, EngineError
from bridge_plugins.launch import ranks
from bridge_plugins.launch.engine import Server
from bridge_plugins.launch.processes import Process, Run
from examples.bridge_mode.messages import Outcome, Settings

ENGINE_START_SECONDS = 300
RUN_SECONDS = 1800


def launch(run: Run, server: Server, settings: Settings, module: str, console: Console) -> Outcome:
    """Start `module` under torchrun with as many ranks as the topology has, and wait for what it says at the end.

    Raises `BridgePluginsError` with the words of the first rank that failed, or the server's last lines.
    """
    started = time.perf_counter()
    settings.url = server.engine.url
    sizes = f"TP={settings.topology['engine_tp']} EP={settings.topology['engine_ep']}"
    console.print(f"engine     starting SGLang {sizes} at {settings.url}, log {server.process.log}")
    world = settings.topology["world"]
    trainer = ranks.start(run, module, settings, world, quiet=False)
    console.print(f"trainer    starting {world} ranks, logs {run.folder}/rank-*.log")
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


def conclude(work: Callable[[], Outcome], console: Console) -> NoReturn:
    """Do the whole of an example's `work`, say how it ended, and leave with its exit status."""
    try:
        outcome = work()
    except BridgePluginsError as error:
        console.print(f"error: {error}", style="red", markup=False)
        raise typer.Exit(2) from None
    except KeyboardInterrupt as reason:
        by = f" by {reason}" if str(reason) else ""
        console.print(f"interrupted{by}: everything is stopped", style="red")
        raise typer.Exit(130) from None
    for note in outcome.notes:
        console.print(f"note       {note}", markup=False)
    for finding in outcome.findings:
        console.print(f"finding    {finding}", markup=False)
    console.print(outcome.verdict, markup=False)
    raise typer.Exit(outcome.exit_status)


def _refuse_if_ended(run: Run, trainer: Process) -> None:
    status = trainer.status()
    if status is not None:
        raise BridgePluginsError(_why(run, trainer, status))


def _why(run: Run, trainer: Process, status: int) -> str:
    reason = ranks.why(run, trainer, status)
    return f"{reason} (--keep keeps the logs)" if reason.startswith("rank ") else reason
