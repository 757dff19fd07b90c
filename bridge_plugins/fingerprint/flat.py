"""Tensors that lie in one buffer of bytes: read in one pass, and how is worked out once for buckets laid out alike."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np
import torch
from torch import Tensor

from bridge_plugins.fingerprint.backend import Backend, backend_for
from bridge_plugins.fingerprint.box import Box
from bridge_plugins.fingerprint.coverage import Coverage, rows_and_cols
from bridge_plugins.fingerprint.formats import format_of
from bridge_plugins.fingerprint.pending import Place
from bridge_plugins.fingerprint.readers import Result, table_reader

Slice = tuple[int, tuple[int, ...], torch.dtype]
"""A tensor in a buffer: its first byte, its shape, its dtype."""


class FlatTable:
    """How to read the tensors of such buffers; see `flat_table`.

    Attributes:
        places, shapes, nbytes: of each tensor.
    """

    def __init__(
        self, slices: tuple[Slice, ...], device: torch.device, alignment: int, statistics: bool
    ) -> None:
        formats = [format_of(dtype) for _, _, dtype in slices]
        self.shapes = [tuple(shape) for _, shape, _ in slices]
        self.nbytes = [prod(shape) * held.bytes for shape, held in zip(self.shapes, formats, strict=True)]
        self._starts = np.array([start for start, _, _ in slices], np.int64)
        self._end = max(start + size for start, size in zip(self._starts.tolist(), self.nbytes, strict=True))
        if any((alignment + start) % held.bytes for (start, _, _), held in zip(slices, formats, strict=True)):
            raise ValueError("a tensor does not begin at a multiple of its elements' size")
        if any(backend_for(held, held, device) is Backend.REFERENCE for held in set(formats)):
            raise TypeError(f"there are no kernels for {device.type}")
        sizes = [rows_and_cols(shape) for shape in self.shapes]
        self.places = [Place(Coverage((Box(s),)), held.name) for s, held in zip(sizes, formats, strict=True)]
        table = [
            (start + alignment, size.cols * held.bytes, held.bytes, *size, 0, 1, 0, 1)
            for (start, _, _), size, held in zip(slices, sizes, formats, strict=True)
        ]
        pairs = [(held, held) for held in formats]
        backend = backend_for(formats[0], formats[0], device)
        self._read = table_reader(backend, device, np.array(table, np.int64), pairs, statistics)

    def run(self, buffer: Tensor) -> Result:
        """Queue one pass over the tensors in `buffer`, on the current stream; on a CPU they are read before it returns.

        Raises ValueError if they don't lie in it.
        """
        if not buffer.is_contiguous() or buffer.nbytes < self._end:
            raise ValueError(f"a buffer of {buffer.nbytes} bytes for tensors that end at byte {self._end}")
        address = buffer.data_ptr()
        if self._end and not address:
            raise ValueError("a buffer without memory of its own")
        return self._read(address + self._starts, [])


@lru_cache(maxsize=256)  # the buckets of a version, for the next one: some 100 kB each
def flat_table(
    slices: tuple[Slice, ...], device: torch.device, alignment: int, statistics: bool
) -> FlatTable:
    """How to read `slices` (at least one) of a buffer on `device` whose address is `alignment` modulo `ALIGNMENT`.

    Raises:
        TypeError: for a dtype that has no fingerprint, and where there are no kernels: take the tensors one by one.
        ValueError: for a tensor that doesn't begin where one of its dtype can.
    """
    return FlatTable(slices, device, alignment, statistics)
