"""Random-state tracking and activation checkpointing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.checkpoint


class CudaRNGStatesTracker:
    def __init__(self) -> None:
        self.states_: dict[str, Any] = {}

    def reset(self) -> None:
        self.states_ = {}

    def get_states(self) -> dict[str, Any]:
        return dict(self.states_)

    def set_states(self, states: dict[str, Any]) -> None:
        self.states_ = states

    def add(self, name: str, seed: int) -> None:
        self.states_[name] = torch.Generator().manual_seed(seed).get_state()

    @contextmanager
    def fork(self, name: str = "model-parallel-rng") -> Iterator[None]:  # noqa: ARG002
        yield


def checkpoint(
    function: Any,
    *args: Any,
    distribute_saved_activations: bool = False,  # noqa: ARG001
    get_rng_state_tracker: Any = None,  # noqa: ARG001
    tp_group: Any = None,  # noqa: ARG001
    **kwargs: Any,
) -> Any:
    return torch.utils.checkpoint.checkpoint(function, *args, use_reentrant=False, **kwargs)


def activation_recompute_forward(*_: Any, **__: Any) -> None:
    raise NotImplementedError("selective recomputation is not in the stand-in for transformer_engine")


def is_fp8_activation_recompute_enabled() -> bool:
    return False
