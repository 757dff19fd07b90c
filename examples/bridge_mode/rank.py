"""What every rank of an example does around its work: join the others, and speak with one voice."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import msgspec
from rich.console import Console

from bridge_plugins.launch import ranks
from examples.bridge_mode.messages import Outcome, Settings

Told = TypeVar("Told", bound=Settings)


def as_rank(work: Callable[[Told, Console], Outcome], settings_type: type[Told]) -> None:
    """Run `work` as the rank that torchrun made of this process, with the settings of the file on the command line."""
    settings, folder = ranks.told(settings_type)
    first = os.environ["RANK"] == "0"
    # One voice: rank 0 speaks; everything else, libraries' chatter too, goes to a file of its own.
    voice = os.fdopen(os.dup(1), "w") if first else open(os.devnull, "w")  # noqa: SIM115, PTH123
    console = Console(file=voice, highlight=False, soft_wrap=True, width=100)
    try:
        with ranks.joined(folder, timedelta(minutes=5)):
            outcome = work(settings, console)
            if first:
                (folder / "outcome.json").write_bytes(msgspec.json.encode(outcome))
    finally:
        voice.flush()
