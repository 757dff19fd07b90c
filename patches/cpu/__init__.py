"""Runs stacks that were written for a GPU on a CPU: the real Megatron and the real SGLang compute every number.

Off unless no GPU is there or ``BRIDGE_PLUGINS_CPU=1`` asks for it; ``BRIDGE_PLUGINS_CPU=0`` keeps it off. Four kinds
of things are in the way on a CPU, one file each: streams and events (`streams`), hard-coded CUDA devices (`devices`),
CUDA random states (`random_state`), and what gloo can't do that NCCL can (`collectives`). Packages that can't be
installed there are stood in for by `standins`, which step aside for the real ones.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable

from bridge_plugins.hookspecs import hookimpl
from bridge_plugins.patching import Patch


@functools.cache
def wanted() -> bool:
    """Whether this process runs on the CPU: asked for, or no GPU is there."""
    asked = os.environ.get("BRIDGE_PLUGINS_CPU", "")
    if asked:
        return asked != "0"
    import torch

    return not torch.cuda.is_available()


def describe() -> str:
    """What the set did in this process, in one line for a run's output."""
    from bridge_plugins.patches.cpu import standins

    if not wanted():
        return "cpu patches: off (a GPU is there)"
    stood_in = ", ".join(standins.in_use()) or "none"
    return f"cpu patches: on (no GPU: gloo, dummy streams); stand-ins for packages: {stood_in}"


@hookimpl
def bridge_patches() -> Iterable[Patch]:
    if not wanted():
        return []
    from bridge_plugins.patches.cpu import collectives, devices, random_state, standins, streams

    # torch.compile has no compiler here, and Megatron's jit_fuser is torch.compile.
    os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")
    return [
        *standins.PATCHES,
        *streams.PATCHES,
        *devices.PATCHES,
        *random_state.PATCHES,
        *collectives.PATCHES,
    ]
