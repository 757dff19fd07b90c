"""A compiled kernel launched directly: a third of the host time that Triton's own call takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from bridge_plugins.fingerprint.cuda.kernels import stream_words
from bridge_plugins.fingerprint.cuda.variant import Variant, constants, limit
from bridge_plugins.fingerprint.formats import Format

Launch = Callable[..., None]

_NUMBERS = 10  # leading arguments of stream_words that are numbers
_POINTERS = (torch.int64, torch.int64, torch.float64, torch.int32)  # the rest: keys, lanes, floats, counts


@cache
def stream_launch(device: torch.device, variant: Variant, taken: Format, statistics: bool) -> Launch:
    """Compile `stream_words` for a device; a call takes the stream, the number of tiles, the kernel's arguments.

    Tensors are passed as addresses. The device must be the current one.
    """
    shape = variant.shape
    fixed = {
        **constants(taken),
        "LIMIT": limit(taken),
        "STATISTICS": statistics,
        "KEY_TABLE": True,
        "ALIGNED": variant.aligned,
        "RB": shape.step,
        "UNROLL": shape.unroll,
        "BW": shape.cols,
    }
    if device.type != "cuda":  # Triton's interpreter takes tensors, not addresses

        def interpret(_stream: int, tiles: int, *arguments: Any) -> None:
            stream_words[(tiles,)](*arguments, **fixed)

        return interpret
    # 64-bit numbers in the signature, whatever those of the first tensor are.
    numbers = [1 << 40] * _NUMBERS
    compiled = stream_words.warmup(*numbers, *_POINTERS, **fixed, grid=(1,), num_warps=shape.warps)
    run, function, metadata = compiled.run, compiled.function, compiled.packed_metadata
    values = tuple(fixed.values())

    def launch(stream: int, tiles: int, *arguments: Any) -> None:
        run(tiles, 1, 1, stream, function, metadata, None, None, None, *arguments, *values)

    return launch
