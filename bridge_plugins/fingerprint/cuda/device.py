"""What is asked of a CUDA device. A CPU device answers too: the tests run the kernels in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache

import torch
from torch import Tensor


def current_stream(device: torch.device) -> Callable[[], int | None]:
    """A call that says which stream of a device is the current one, as a handle; None on another device."""
    if device.type != "cuda":
        return lambda: 0
    # A quarter of the time of torch.cuda.current_stream, and what Triton calls for each launch.
    current, stream_of, index = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream, device.index
    return lambda: stream_of(index) if current() == index else None


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a device the current one."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def on_stream(device: torch.device, stream: int) -> AbstractContextManager[object]:
    """Make a stream the current one, by its handle."""
    if device.type != "cuda":
        return nullcontext()
    if not stream:  # torch would take a new stream for an external one without a handle
        return torch.cuda.stream(torch.cuda.default_stream(device))
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


@cache
def has_ptx(device: torch.device) -> bool:
    """Whether a device has the instructions of `ptx.py`: NVIDIA's from Hopper on; not Triton's interpreter."""
    nvidia = device.type == "cuda" and torch.version.hip is None
    return nvidia and torch.cuda.get_device_capability(device) >= (9, 0)
