"""Weights that nobody reads needn't be drawn: where a model ignores the meta device, that takes minutes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

FILLING = (
    "constant_", "kaiming_normal_", "kaiming_uniform_", "normal_", "ones_", "trunc_normal_", "uniform_",
    "xavier_normal_", "xavier_uniform_", "zeros_",
)  # fmt: skip


@contextlib.contextmanager
def unfilled() -> Iterator[None]:
    """Let ``torch.nn.init`` leave tensors as they were allocated: the system hands out no page of them."""
    import torch

    with contextlib.ExitStack() as replaced:
        for name in FILLING:
            replaced.enter_context(mock.patch.object(torch.nn.init, name, _as_it_is))
        yield


def _as_it_is(tensor: Any, *_: Any, **__: Any) -> Any:
    return tensor
