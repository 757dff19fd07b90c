"""Ranks of which one is killed on the way: what became of the others."""

from __future__ import annotations

import ctypes
import datetime as dt
import importlib
import multiprocessing
import os
import signal
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import msgspec

from tests.stacks.ranks import PR_SET_PDEATHSIG

PATIENCE = 20.0  #: seconds that a collective waits
KILLED = "killed"
STUCK = "still running"


def run_and_kill(
    folder: Path, function: str, world: int, victim: int, *, timeout: float, **arguments: Any
) -> list[str]:
    """Run `function`, which kills `victim`, on `world` ranks; what each of them ended with, within `timeout` seconds.

    The store lives outside of the ranks, as torchrun's does.
    """
    import torch.distributed as dist

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.stacks.preload"])
    encoded = msgspec.json.encode({**arguments, "victim": victim})
    ranks = [
        context.Process(target=_rank, args=(function, encoded, rank, world, store.port, folder), daemon=True)
        for rank in range(world)
    ]
    try:
        for process in ranks:
            process.start()
        until = time.monotonic() + timeout
        while (running := [p.sentinel for p in ranks if p.is_alive()]) and time.monotonic() < until:
            wait(running, timeout=until - time.monotonic())
        return [_outcome(process, folder / f"rank{rank}.txt") for rank, process in enumerate(ranks)]
    finally:
        for process in ranks:
            process.kill()
            process.join()


def _outcome(process: Any, said: Path) -> str:
    if process.is_alive():
        return STUCK
    if process.exitcode == -signal.SIGKILL:
        return KILLED
    return said.read_text() if said.exists() else f"ended with {process.exitcode}"


def _rank(function: str, arguments: bytes, rank: int, world: int, port: int, folder: Path) -> None:
    import torch.distributed as dist

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    with (folder / f"rank{rank}.log").open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world))
    patience = dt.timedelta(seconds=PATIENCE)
    store = dist.TCPStore("127.0.0.1", port)  # type: ignore[attr-defined]
    dist.init_process_group("gloo", rank=rank, world_size=world, store=store, timeout=patience)
    module, _, name = function.partition(":")
    try:
        said = str(getattr(importlib.import_module(module), name)(**msgspec.json.decode(arguments)))
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    (folder / f"rank{rank}.txt").write_text(said)
    sys.stdout.flush()
    os._exit(0)  # a group that has lost a rank can't be taken down


def die(victim: int) -> None:
    """The rank `victim` ends here, as the kernel ends a process that has used too much memory."""
    import torch.distributed as dist

    if dist.get_rank() == victim:
        os.kill(os.getpid(), signal.SIGKILL)


def die_at(victim: int, collective: str, call: int = 1) -> None:
    """The rank `victim` ends when it would take part in this collective for the `call`-th time."""
    import torch.distributed as dist

    original, calls = getattr(dist, collective), [0]

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            die(victim)
        return original(*args, **kwargs)

    setattr(dist, collective, counted)


def stream(victim: int = -1, at: int = -1) -> Any:
    """Tensors as an export gives them: every rank takes part in each. The rank `victim` ends before the `at`-th."""
    import torch
    import torch.distributed as dist

    for number in range(6):
        if number == at:
            die(victim)
        tensor = torch.full((8, 16), float(number + 1))
        dist.all_reduce(tensor)
        yield f"model.layers.{number}.w.weight", tensor


def audit(victim: int, where: str) -> str:
    """An audited version: the victim ends during the export, the gather of what ranks saw, or the first rank's verdict."""
    from bridge_plugins.audit import WeightAudit

    one = WeightAudit("tiny")
    if where in ("all_gather_object", "broadcast_object_list"):
        die_at(victim, where)
    for _ in one.watch(stream(victim, 3 if where == "export" else -1)):
        pass
    one.finish("1")
    return "finished"


def local(victim: int) -> str:
    """What ranks hold is brought together: the victim ends while it looks at its own."""
    import torch.distributed as dist

    from bridge_plugins.audit.exchange import merge_ranks
    from bridge_plugins.audit.megatron_local.merge import Merge
    from bridge_plugins.audit.megatron_local.part import LocalParts
    from bridge_plugins.audit.summary import Header, Summary

    def take() -> LocalParts:
        die(victim)
        return LocalParts(Header("tiny", "", "1", rank=dist.get_rank(), world=dist.get_world_size()), ())

    merge = Merge()
    merge_ranks(take, merge.add, merge.summary, Summary.brief)
    return "finished"


def automatic(victim: int, checkpoint: str, topology: dict[str, Any], audits: str) -> str:
    """An export of the real bridge in automatic mode: the victim ends in the middle."""
    from bridge_plugins.topology import Topology
    from tests.audit.cases import switch_on
    from tests.stacks.trainer import build

    switch_on(audits)
    trainer = build(checkpoint, Topology(**topology))
    for number, _ in enumerate(
        trainer.bridge.export_hf_weights(trainer.model, cpu=True, show_progress=False)
    ):
        if number == 20:
            die(victim)
    return "finished"


def push(victim: int, where: str, checkpoint: str, url: str) -> str:
    """A version for a real engine: the victim ends in the stream, or while the first rank reads it back."""
    import torch
    import torch.distributed as dist
    from safetensors.torch import load_file

    from bridge_plugins.audit import WeightAudit
    from bridge_plugins.engines.sglang.client import Engine
    from bridge_plugins.engines.sync import WeightSync

    class Asked(Engine):
        def ask(self, *args: Any, **kwargs: Any) -> Any:
            if where == "readback":
                die(victim)
            return super().ask(*args, **kwargs)

    def export() -> Any:
        for number, item in enumerate(sorted(load_file(f"{checkpoint}/model.safetensors").items())):
            if number == 40 and where == "push":
                die(victim)
            dist.all_reduce(torch.ones(1))
            yield item

    engines = [Asked(url, timeout=60)] if dist.get_rank() == 0 else []
    sync = WeightSync(WeightAudit("moe"), engines, bucket_bytes=200_000)
    if where == "readback" and victim != 0:
        # audit.finish and the push have words of their own before that.
        die_at_conclusion(sync, victim)
    done = sync.push(export(), "of the dead")
    return done.verdict.word


def die_at_conclusion(sync: Any, victim: int) -> None:
    """The victim ends where it would wait for what the first rank reads back."""
    from bridge_plugins.engines import sync as module

    original = vars(module)["on_first_rank"]

    def concluded(*args: Any, **kwargs: Any) -> Any:
        die(victim)
        return original(*args, **kwargs)

    vars(module)["on_first_rank"] = concluded
    assert sync.audit.strict is False  # then the first word is the last
