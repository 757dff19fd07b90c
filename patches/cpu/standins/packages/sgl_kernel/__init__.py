"""Stand-in for ``sgl_kernel``, whose names SGLang imports on a CPU without asking.

No ``torch.ops.sgl_kernel.*`` is registered, so that SGLang takes its own torch paths. Calling a name is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn


def _missing(name: str) -> Callable[..., NoReturn]:
    def kernel(*_: Any, **__: Any) -> NoReturn:
        raise NotImplementedError(
            f"sgl_kernel.{name} is a stand-in here: it needs the real sgl-kernel and a GPU"
        )

    kernel.__name__ = name
    return kernel


def __getattr__(name: str) -> Callable[..., NoReturn]:
    if name.startswith("__"):
        raise AttributeError(name)
    return _missing(name)
