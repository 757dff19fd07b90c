"""A compiled kernel launched through the driver: Triton's own call costs the host several times as much."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import Any, Final

import torch

from bridge_plugins.fingerprint.cuda.device import has_ptx
from bridge_plugins.fingerprint.cuda.kernels import stream_words
from bridge_plugins.fingerprint.cuda.reading import reading
from bridge_plugins.fingerprint.cuda.variant import Walk
from bridge_plugins.fingerprint.formats import Format

Launch = Callable[[int, int], None]
"""Queues a pass, given the tensor's address and that of its first record."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """What `stream_words` is told of a block after its two addresses, in the kernel's order: see there."""

    row_bytes: int
    col_bytes: int
    rows: int
    cols: int
    first_row: int
    row_stride: int
    first_word: int
    tile_rows: int
    tiles_across: int
    key_table: int


_ARGUMENTS: Final = 2 + len(Numbers.__slots__)
_SPARE: Final = 4  # Triton's own arguments after ours are unused pointers; it has two today
_ADDRESSES: Final = struct.Struct("2Q")
_NO_CONTEXT: Final = 201


@dataclass(frozen=True, slots=True)
class StreamKernel:
    """`stream_words`, compiled for the current device."""

    fixed: dict[str, Any]
    function: int = 0
    threads: int = 0
    shared: int = 0

    def prepare(self, stream: int, tiles: int, numbers: Numbers) -> Launch:
        """A launch over `tiles` tiles on a stream, with all arguments in place but for two addresses."""
        values = tuple(asdict(numbers).values())
        if not self.function:  # Triton's interpreter
            return lambda address, record: stream_words[(tiles,)](address, record, *values, **self.fixed)
        slots = (ctypes.c_int64 * (_ARGUMENTS + _SPARE))(0, 0, *values)
        first = ctypes.addressof(slots)
        pointers = (ctypes.c_void_p * len(slots))(*range(first, first + ctypes.sizeof(slots), 8))
        place = partial(_ADDRESSES.pack_into, slots, 0)
        grid, block = (tiles, 1, 1), (self.threads, 1, 1)
        handles = ctypes.c_void_p(self.function), ctypes.c_void_p(stream)
        queue = partial(
            _driver().cuLaunchKernel, handles[0], *grid, *block, self.shared, handles[1], pointers, None
        )

        def launch(address: int, record: int) -> None:
            place(address, record)
            status = queue()
            if status == _NO_CONTEXT:  # this thread has not used the device yet
                torch.cuda.current_stream().query()
                status = queue()
            if status:
                raise RuntimeError(f"CUDA's driver refused the fingerprint's launch: {_name(status)}")

        return launch


@cache
def stream_kernel(
    device: torch.device, walk: Walk, taken: Format, statistics: bool, key_table: bool
) -> StreamKernel:
    """Compile `stream_words` for a device, which must be the current one."""
    how = reading(taken, has_ptx(device))
    fixed = {"FORMAT": how, "WALK": walk, "STATISTICS": statistics, "KEY_TABLE": key_table}
    if device.type != "cuda":
        return StreamKernel(fixed)
    # 64-bit numbers in the signature, whatever those of the first tensor are.
    compiled = stream_words.warmup(*[1 << 40] * _ARGUMENTS, **fixed, grid=(1,), num_warps=walk.warps)
    assert compiled.run  # loads it
    return StreamKernel(fixed, compiled.function, 32 * walk.warps, compiled.metadata.shared)


@cache
def _driver() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def _name(status: int) -> str:
    name = ctypes.c_char_p()
    _driver().cuGetErrorName(status, ctypes.byref(name))
    return name.value.decode() if name.value else f"error {status}"
