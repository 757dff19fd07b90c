"""CUDA streams and events where there is no GPU: they order nothing, for a CPU has nothing to order."""

from __future__ import annotations

import contextlib
from typing import Any

import torch

from bridge_plugins.patches.cpu.standing import standing
from bridge_plugins.patching import Patch, Replace


class DummyStream:
    """Stands for ``torch.cuda.Stream``: every method does nothing and gives nothing."""

    cuda_stream = 0

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __enter__(self) -> DummyStream:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        pass

    record = wait = synchronize = wait_event = wait_stream = _do_nothing

    def record_event(self, event: Any = None) -> Any:
        return event or DummyEvent()

    def query(self) -> bool:
        return True

    def elapsed_time(self, _: Any) -> float:
        return 0.0


class DummyEvent(DummyStream):
    """Stands for ``torch.cuda.Event``. A class of its own: torch._dynamo refuses one object under two names."""


class _Nvtx:
    """Stands for ``torch.cuda.nvtx``."""

    def _do_nothing(self, *_: Any, **__: Any) -> None:
        pass

    range_push = range_pop = mark = range_start = range_end = _do_nothing

    @staticmethod
    def range(*_: Any, **__: Any) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def _current_stream(*_: Any, **__: Any) -> DummyStream:
    return DummyStream()


def _default_stream(*_: Any, **__: Any) -> DummyStream:
    return DummyStream()


def _use_stream(_: Any) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext()


def _set_stream(_: Any) -> None:
    pass


def _synchronize(_: Any = None) -> None:
    pass


def _record_stream(_tensor: torch.Tensor, _stream: Any) -> None:
    pass


_STANDS_FOR = {
    "torch.cuda:Stream": DummyStream,
    "torch.cuda:Event": DummyEvent,
    "torch.cuda:current_stream": _current_stream,
    "torch.cuda:default_stream": _default_stream,
    "torch.cuda:stream": _use_stream,
    "torch.cuda:set_stream": _set_stream,
    "torch.cuda:synchronize": _synchronize,
    "torch.cuda:nvtx": _Nvtx(),
    "torch:Tensor.record_stream": _record_stream,
}

PATCHES: list[Patch] = [
    Replace(f"cpu.{target.partition(':')[2]}", target, "needs a CUDA driver", standing(new))
    for target, new in _STANDS_FOR.items()
]
