"""Tensors of a stream on the CPU: each is read at once, and how is worked out once for each kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import Tensor

from bridge_plugins.fingerprint.alike import kind_of
from bridge_plugins.fingerprint.cpu.run import Pass
from bridge_plugins.fingerprint.geometry import geometry
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.fingerprint.part import Block
from bridge_plugins.fingerprint.pending import Place


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """How to read tensors of one kind."""

    run: Pass
    place: Place


class HostStream:
    """Reads CPU tensors as they come, and holds none of them.

    Args:
        statistics: whether to compute them too.
    """

    def __init__(self, statistics: bool) -> None:
        self._statistics = statistics
        self._plans: dict[object, _Plan] = {}
        self._address = np.zeros(1, np.int64)
        self._found: list[Measured] = []

    def add_whole(self, tensor: Tensor) -> Place | None:
        """Read a whole tensor of a kind seen before; None, and nothing read, for others."""
        try:
            address, plan = tensor.data_ptr(), self._plans.get(kind_of(tensor))
        except RuntimeError:  # a sparse tensor, say: it is refused with its reason elsewhere
            return None
        if plan is None or not address:  # without memory of its own it is refused elsewhere
            return None
        self._read(plan.run, address)
        return plan.place

    def add(self, block: Block, tensor: Tensor) -> None:
        """Read a block of a tensor."""
        plan = _Plan(Pass(geometry([block]), block.held, block.taken, self._statistics), Place.of(block))
        if block.whole and block.view.data_ptr() == tensor.data_ptr():  # not a copy of the tensor
            self._plans[kind_of(tensor)] = plan
        self._read(plan.run, block.view.data_ptr())

    def _read(self, one: Pass, address: int) -> None:
        self._address[0] = address
        self._found.append(one.run(self._address))

    def read(self) -> Measured:
        """The numbers of all blocks since the last read, in order."""
        found, self._found = self._found, []
        return Measured.joined(found)
