"""What is asked of a CUDA device. A CPU device answers too: the tests run the kernels in Triton's interpreter."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor


def current_stream(device: torch.device) -> int:
    """The handle of the current stream; 0 is the default one."""
    # Four times as fast as torch.cuda.current_stream, and what Triton calls for each launch.
    return torch._C._cuda_getCurrentRawStream(_index(device)) if device.type == "cuda" else 0


def is_current(device: torch.device) -> bool:
    """Whether a launch would go to the device."""
    return device.type != "cuda" or torch.cuda.current_device() == _index(device)


@cache
def _index(device: torch.device) -> int:
    return torch.cuda.current_device() if device.index is None else device.index


def on_stream(device: torch.device, stream: int) -> AbstractContextManager[object]:
    """Make a stream the current one."""
    if device.type != "cuda":
        return nullcontext()
    external = torch.cuda.ExternalStream(stream, device)  # type: ignore[no-untyped-call]
    return torch.cuda.stream(external)


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Queue a copy from the host, through pinned memory that torch's allocator keeps until the copy is done."""
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


def wait(device: torch.device) -> None:
    """Wait for all streams of the device."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
