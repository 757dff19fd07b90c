"""One architecture, cut one way: its ranks are forked, find out their layouts, and are read back against the checkpoint."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from tests.engine.architectures import ARGUMENTS, make
from tests.engine.model_rank import Sizes, model_runner

SECONDS = 120.0  #: that a case may take

FAULTS = Path(__file__).with_name("faults")


class Case(msgspec.Struct, frozen=True):
    """What to build, and what happens to it before it is read back.

    `steps` are (what, arguments): ``load`` gives it the checkpoint's weights `plus` something, the others are faults of
    faults/bridge_faults.py. What it is compared with was loaded last.
    """

    architecture: str
    sizes: Sizes = Sizes()
    steps: tuple[tuple[str, dict[str, Any]], ...] = ()

    @property
    def plus(self) -> float:
        """What was added to the checkpoint's weights in the last load."""
        return float(([0.0] + [asked["plus"] for name, asked in self.steps if name == "load"])[-1])


class Result(msgspec.Struct, frozen=True):
    """What came of one case. `failure` says why it can't be built; the other fields are empty then.

    `compared` of `served` are bytes of the engine's memory on all ranks; `not_compared` gives reasons by name.
    """

    architecture: str
    sizes: str
    failure: str = ""
    tensors: int = 0
    equal: int = 0
    compared: int = 0
    served: int = 0
    not_compared: dict[str, str] = {}
    mismatched: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()


def run(case: Case) -> Result:
    """Build, probe, go through the case's steps and read back."""
    architecture, sizes = case.architecture, case.sizes
    folder = Path(tempfile.mkdtemp(prefix="bridge-architecture-"))
    try:
        make(architecture, folder)
        replies = _replies(folder, case)
        if isinstance(replies, str):
            return Result(architecture, str(sizes), replies)
        return _compare(case, folder, replies)
    except Exception as error:
        return Result(architecture, str(sizes), f"{type(error).__name__}: {error}"[:200])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _replies(folder: Path, case: Case) -> list[dict[str, str]] | str:
    """Each rank's answers by action, as JSON; or why one of them failed."""
    context = multiprocessing.get_context("fork")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ends, processes = [], []
    for rank in range(case.sizes.world):
        mine, its = context.Pipe(duplex=False)
        process = context.Process(target=_rank, args=(folder, case, rank, port, its), daemon=True)
        process.start()
        its.close()
        ends.append(mine)
        processes.append(process)
    try:
        until = time.monotonic() + SECONDS
        replies: list[Any] = []
        for rank, end in enumerate(ends):
            if not end.poll(max(until - time.monotonic(), 0)):
                return f"rank {rank} gave no answer within {SECONDS:.0f} s"
            try:
                replies.append(end.recv())
            except EOFError:
                return f"rank {rank} died"
        return next((reply for reply in replies if isinstance(reply, str)), replies)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _rank(folder: Path, case: Case, rank: int, port: int, end: Connection) -> None:
    """What runs in the forked process."""
    log = os.open(os.environ.get("BRIDGE_TEST_LOG", os.devnull), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        runner = model_runner(folder, case.sizes, rank, port, ARGUMENTS.get(case.architecture, ()))
        model = runner.model
        _go_through(case, folder, runner, rank)
        from bridge_plugins.engines.sglang.actions import layers, records

        usual = {"dtype": "bfloat16"}
        end.send(
            {
                "layers": msgspec.json.encode(layers(model, **usual)).decode(),
                "records": msgspec.json.encode(records(model, **usual)).decode(),
            }
        )
    except BaseException as error:
        import traceback

        traceback.print_exc()
        end.send(f"{type(error).__name__}: {error}"[:200])


def _go_through(case: Case, folder: Path, runner: Any, rank: int) -> None:
    sys.path.insert(0, str(FAULTS))
    import bridge_faults
    import torch

    from bridge_plugins.engines.sglang.loading import loader_of

    for name, given in case.steps:
        asked = dict(given)
        if name == "load":
            loader_of(runner)(_weights(folder, asked["plus"]))
        elif asked.pop("rank", rank) == rank:
            with torch.no_grad():
                bridge_faults.FAULTS[name](runner.model, **asked)


def _weights(folder: Path, plus: float) -> Iterator[tuple[str, Any]]:
    from bridge_plugins.layout.sources import read_weights

    for name, weight in read_weights(folder):
        yield name, (weight.float() + plus).to(weight.dtype)


def _compare(case: Case, folder: Path, replies: Sequence[dict[str, str]]) -> Result:
    from bridge_plugins.audit import WeightAudit
    from bridge_plugins.audit.place import place_of
    from bridge_plugins.engines.sglang.client import Engine, Reply
    from bridge_plugins.engines.sglang.comparison import compare
    from bridge_plugins.engines.sglang.readback import read_back

    class Recorded(Engine):
        """The ranks' answers, as a server would pass them on."""

        asked: list[str]

        def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:
            self.asked.append(action)
            told = [msgspec.json.decode(each[action], type=reply) for each in replies]
            layers = arguments.get("layers")
            if layers is None:
                return told
            return [
                msgspec.structs.replace(
                    one, tensors={n: t for n, t in one.tensors.items() if place_of(n).layer in layers}
                )
                for one in told
            ]

    def summary_of(plus: float, version: str) -> Any:
        audit = WeightAudit(case.architecture)
        for _ in audit.watch(_weights(folder, plus)):
            pass
        return audit.finish(version)[0]

    summary = summary_of(case.plus, "2")
    before = summary_of(0.0, "1") if case.plus else None
    engine = Recorded("http://engine")
    engine.asked = []
    found = compare(summary, "engine", read_back(engine, summary), before)
    equal = len(summary.records.keys() - found.mismatched - found.not_compared.keys())
    return Result(
        case.architecture, str(case.sizes), "", len(summary.records), equal, found.engine_compared,
        found.engine_served, found.not_compared, found.mismatched, tuple(map(str, found.findings)),
        tuple(engine.asked),
    )  # fmt: skip
