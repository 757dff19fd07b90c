"""From distributed: buckets broadcast over NCCL, or gloo on a CPU. For engines on other machines."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import PrefixStore, TCPStore
from torch.distributed.distributed_c10d import _new_process_group_helper, _world

from bridge_plugins.audit.handover import bucket_handed_over
from bridge_plugins.engines.sglang.buckets import NamedTensors
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.transports import WeightUpdate
from bridge_plugins.errors import EngineError
from bridge_plugins.fingerprint.flat import Slice


@dataclass(frozen=True)
class Flat:
    """A bucket end to end in one buffer, in an order in which every tensor is aligned for its dtype."""

    names: list[str]
    dtypes: list[str]
    shapes: list[list[int]]
    bytes: Tensor


@dataclass(frozen=True)
class _Group:
    engine: Engine
    name: str
    group: Any


class FromDistributed(WeightUpdate):
    """``/update_weights_from_distributed``: this process is rank 0 of a group with all ranks of one engine.

    Each engine has a group of its own: one that dies takes no other along. Groups are kept from push to push.
    Not for an engine with pipeline stages. Over NCCL this process needs ``NCCL_CUMEM_ENABLE=0`` from its start, as SGLang
    sets it in its own.

    Args:
        address: of this machine, as the engines reach it.
        backend: ``nccl`` or ``gloo``; None for what this machine has.
        timeout: seconds for a group to form, and for one broadcast.
    """

    def __init__(
        self, address: str = "127.0.0.1", *, backend: str | None = None, timeout: float = 120.0
    ) -> None:
        super().__init__()
        self._address = address
        self._backend = backend or ("nccl" if torch.cuda.is_available() else "gloo")
        self._timeout = dt.timedelta(seconds=timeout)
        self._groups: dict[str, _Group] = {}
        self._joining = threading.Lock()  # torch's table of groups is no place for two threads

    def begin(self, engine: Engine) -> None:
        super().begin(engine)
        if engine.url not in self._groups:
            with self._joining:
                self._groups[engine.url] = self._join(engine)

    def pack(self, bucket: NamedTensors) -> Flat:
        # Widest first: then each begins at a multiple of its own element's size.
        ordered = sorted(bucket, key=lambda item: -item[1].element_size())
        flat = torch.cat([tensor.detach().reshape(-1).view(torch.uint8) for _, tensor in ordered])
        bucket_handed_over(flat, lambda: _slices(ordered))
        return Flat(
            [name for name, _ in ordered],
            [str(tensor.dtype).removeprefix("torch.") for _, tensor in ordered],
            [list(tensor.shape) for _, tensor in ordered],
            flat,
        )

    def load(self, engine: Engine, packed: Flat) -> None:
        joined = self._groups[engine.url]
        try:
            # Each waits for the other: the engine takes part in it before it answers, and NCCL, which connects
            # within the first broadcast, does not return from that before the engine takes part.
            broadcast = _beside(lambda: joined.group.broadcast(packed.bytes, 0).wait(self._timeout))
            engine.update_weights_from_distributed(
                joined.name, packed.names, packed.dtypes, packed.shapes, load_format="flattened_bucket"
            )
            broadcast.result(self._timeout.total_seconds())
        except Exception as error:
            # A group with half a broadcast in it is no use any more; whoever waits in it runs into its timeout.
            self._groups.pop(engine.url, None)
            with contextlib.suppress(Exception):  # not every backend has it
                joined.group.abort()
            if "NCCL error" in str(error):
                here = os.environ.get("NCCL_CUMEM_ENABLE", "not set")
                raise EngineError(
                    f"{error} (NCCL_CUMEM_ENABLE is {here} here; SGLang sets 0 in its processes, and NCCL can't connect "
                    "two that differ: start the trainer with NCCL_CUMEM_ENABLE=0)"
                ) from error
            raise

    def close(self) -> None:
        """Leave all groups, so that the engines can join others."""
        for joined in self._groups.values():
            with contextlib.suppress(EngineError):  # it may be gone
                joined.engine.destroy_weights_update_group(joined.name)
            dist.destroy_process_group(joined.group)
        self._groups.clear()

    def _join(self, engine: Engine) -> _Group:
        name = f"bridge-{uuid.uuid4().hex}"
        world = 1 + engine.ranks
        with socket.create_server((self._address, 0)) as listening, ThreadPoolExecutor(1) as other:
            port = listening.getsockname()[1]
            store = TCPStore(
                self._address, port, world, is_master=True, timeout=self._timeout,
                wait_for_workers=False, master_listen_fd=listening.detach(),
            )  # fmt: skip
            # The server answers once it has joined, and joining waits for all.
            asked = other.submit(
                engine.init_weights_update_group, self._address, port, world, name, self._backend
            )
            try:
                # What SGLang's ranks call too: names and prefixes in the store must be the same on both sides.
                made, _ = _new_process_group_helper(
                    world, 0, [], dist.Backend(self._backend), PrefixStore(name, store),
                    group_name=name, timeout=self._timeout,  # type: ignore[arg-type]
                )  # fmt: skip
            except RuntimeError as error:
                raise EngineError(
                    f"{engine.url} did not join a process group with {self._address}:{port}"
                ) from error
            finally:
                asked.result()
        _world.pg_group_ranks[made] = {rank: rank for rank in range(world)}
        return _Group(engine, name, made)


def _beside(act: Callable[[], object]) -> Future[None]:
    """`act` in a thread of its own, which is left behind if it never ends: NCCL can't be called back from there."""
    done: Future[None] = Future()

    def run() -> None:
        try:
            act()
        except BaseException as error:
            done.set_exception(error)
        else:
            done.set_result(None)

    threading.Thread(target=run, name="broadcast", daemon=True).start()
    return done


def _slices(named_tensors: NamedTensors) -> Iterator[tuple[str, Slice]]:
    start = 0
    for name, tensor in named_tensors:
        yield name, (start, tensor.shape, tensor.dtype)
        start += tensor.nbytes
