"""Keeps ranks together where only some of them log."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from bridge_plugins.errors import BarrierError
from bridge_plugins.topology import Topology


class LoggingBarrier:
    """Lets every rank wait before and after a piece of code in which only some ranks do something.

    A rank that computes metrics, or waits for a logging server, falls behind the others, which then sit in the next
    collective until its timeout. Every rank makes one barrier at the start of the run, and enters it each time::

        barrier = LoggingBarrier(topology)
        with barrier("rollout metrics"):
            if dist.get_rank() == 0:
                wandb.log(metrics)

    It waits on a CPU (gloo) group of its own, so neither a GPU nor another collective is in its way. Without TP, PP and
    EP nothing holds ranks together between two steps: then there is no group, and no wait.

    Args:
        topology: of the trainer, the same on every rank.
        timeout: seconds that ranks wait for each other.
    """

    def __init__(self, topology: Topology, timeout: float = 600.0) -> None:
        self._timeout = timedelta(seconds=timeout)
        self._group: Any = None
        if topology.tp > 1 or topology.pp > 1 or topology.ep > 1:
            self._group = dist.new_group(backend="gloo", timeout=self._timeout)

    @contextlib.contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Wait, run the body, wait. Every rank must enter it. What a body raises goes on, and the others with it.

        Args:
            what: is done inside, for the error's text.

        Raises:
            BarrierError: on every rank that waited in vain; on rank 0 it names the ranks that did not come.
        """
        self._wait(f"before {what}")
        try:
            yield
        finally:
            # Also when the body has raised: the others are no part of that, and would wait for nobody.
            self._wait(f"after {what}")

    def _wait(self, where: str) -> None:
        if self._group is None:
            return
        try:
            dist.monitored_barrier(self._group, self._timeout, wait_all_ranks=True)
        except RuntimeError as error:
            seconds = self._timeout.total_seconds()
            raise BarrierError(
                f"{where}: rank {dist.get_rank()} waited {seconds:g} s for other ranks: {_first_line(error)}"
            ) from error


def _first_line(error: Exception) -> str:
    """Without the C++ stack that follows it."""
    return next(iter(str(error).splitlines()), type(error).__name__)
