"""CUDA random states, kept by the CPU's generator instead."""

from __future__ import annotations

from typing import Any

import torch

from bridge_plugins.patches.cpu.standing import standing
from bridge_plugins.patching import Patch, Replace


def _get_state(*_: Any, **__: Any) -> torch.Tensor:
    return torch.get_rng_state()


def _set_state(state: torch.Tensor, *_: Any, **__: Any) -> None:
    torch.set_rng_state(state)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


_MENDS = "asks CUDA for a random state"

PATCHES: list[Patch] = [
    Replace("cpu.get_rng_state", "torch.cuda:get_rng_state", _MENDS, standing(_get_state)),
    Replace("cpu.manual_seed", "torch.cuda:manual_seed", _MENDS, standing(_seed)),
    *(
        Replace(f"cpu.{name}", f"megatron.core.tensor_parallel.random:{name}", _MENDS, standing(new))
        for name, new in (("_get_cuda_rng_state", _get_state), ("_set_cuda_rng_state", _set_state))
    ),
]
