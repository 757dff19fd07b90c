"""Triton's decorator, typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import triton


def kernel(*numbers: str) -> Callable[[Callable[..., Any]], Any]:
    """Compile with Triton. `numbers`: arguments whose values must not be compiled in."""

    def decorate(function: Callable[..., Any]) -> Any:
        return triton.jit(function, do_not_specialize=numbers or None)

    return decorate
