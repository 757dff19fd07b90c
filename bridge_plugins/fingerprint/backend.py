"""Which path takes a block: numba on the CPU, Triton on CUDA, the reference for the rest."""

from __future__ import annotations

from enum import Enum
from functools import cache
from importlib.util import find_spec

import torch

from bridge_plugins.fingerprint.formats import Format
from bridge_plugins.fingerprint.part import Block


class Backend(Enum):
    """The paths. All agree bit for bit."""

    CPU = "numba"
    CUDA = "triton"
    REFERENCE = "torch"


def backend_of(block: Block) -> Backend:
    """The fastest path that takes a block."""
    return backend_for(block.held, block.taken, block.view.device)


def backend_for(held: Format, taken: Format, device: torch.device) -> Backend:
    """The fastest path on a device that takes what is held in one format as another."""
    if not _has_kernels_for(held, taken):
        return Backend.REFERENCE
    if device.type == "cpu" and _installed("numba"):
        return Backend.CPU
    if device.type == "cuda" and _installed("triton"):
        return Backend.CUDA
    return Backend.REFERENCE


def _has_kernels_for(held: Format, taken: Format) -> bool:
    return held == taken or (held.name, taken.name) == ("float32", "bfloat16")


@cache
def _installed(package: str) -> bool:
    return find_spec(package) is not None
