"""What every rank of an example does around its work: join the others, speak with one voice, leave a reason if it fails."""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import msgspec
import torch
import torch.distributed as dist
from rich.console import Console

import bridge_plugins
from bridge_plugins.errors import BridgePluginsError
from bridge_plugins.patches import cpu
from examples.bridge_mode.messages import Outcome, Settings

Told = TypeVar("Told", bound=Settings)


def as_rank(work: Callable[[Told, Console], Outcome], settings_type: type[Told]) -> None:
    """Run `work` as the rank that torchrun made of this process, with the settings of the file on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=Path)
    settings = msgspec.json.decode(parser.parse_args().settings.read_bytes(), type=settings_type)
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
        outcome = work(settings, console)
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
