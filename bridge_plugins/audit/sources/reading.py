"""Records of stored tensors: files are mapped window by window, and read once over all cores.

Memory stays at a few windows, whatever the folder's size; nothing is copied and torch isn't needed.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge_plugins.audit.record import Record
from bridge_plugins.audit.sources.source import Progress
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint.coverage import rows_and_cols
from bridge_plugins.fingerprint.cpu.run import cores, measure
from bridge_plugins.fingerprint.formats import named
from bridge_plugins.fingerprint.geometry import FIELDS
from bridge_plugins.fingerprint.measured import Measured
from bridge_plugins.stored.header import StoredTensor

WINDOW: Final = 8 << 20
"""Bytes that one core maps and reads at a time."""


class Piece(NamedTuple):
    """A run of whole rows of a tensor, or of columns of one row, as it lies in a file."""

    tensor: int
    start: int
    rows: int
    cols: int
    row: int
    col: int


def read_records(tensors: Sequence[StoredTensor], progress: Progress = lambda _: None) -> Iterator[Record]:
    """One record per tensor, in order. Raises `UsageError` for a file that can't be read to its end."""
    with ThreadPoolExecutor(cores()) as pool:
        for file, members in groupby(tensors, key=lambda tensor: tensor.file):
            yield from _of_file(file, list(members), pool, progress)


def _of_file(
    file: Path, tensors: list[StoredTensor], pool: ThreadPoolExecutor, progress: Progress
) -> Iterator[Record]:
    pieces = [piece for index, tensor in enumerate(tensors) for piece in _pieces(index, tensor)]
    windows = list(_windows(pieces, tensors))
    parts: list[Measured] = []
    try:
        with file.open("rb") as stream:
            handle = stream.fileno()
            for part, window in zip(
                pool.map(lambda w: _measure(handle, w, tensors), windows), windows, strict=True
            ):
                parts.append(part)
                progress(_end(window[-1], tensors) - window[0].start)
    except (OSError, ValueError) as error:  # cut while it was read, say
        raise UsageError(f"{file} could not be read: {error}") from error
    whole = Measured.joined(parts)
    starts = np.flatnonzero(np.diff([-1, *(piece.tensor for piece in pieces)]))
    if len(starts):
        whole = whole.add_up(starts)
    for tensor, lanes, absmax, squares, (zeros, nans, infs, _) in zip(
        tensors, *(column.tolist() for column in _columns(whole)), strict=True
    ):
        yield Record(
            *(tensor.name, tensor.shape, tensor.dtype, tuple(lanes), tensor.nbytes),
            *(squares**0.5, absmax, zeros, nans + infs),
        )


def _columns(measured: Measured) -> tuple[NDArray[np.generic], ...]:
    return (measured.lanes, measured.absmax, measured.sum_of_squares, measured.counts)


def _pieces(index: int, tensor: StoredTensor) -> Iterable[Piece]:
    """Cut a tensor into pieces of a window at most: by rows, and a row that is longer by columns."""
    rows, cols = rows_and_cols(tensor.shape)
    width = named(tensor.dtype).bytes
    if tensor.nbytes <= WINDOW:
        return [Piece(index, tensor.start, rows, cols, 0, 0)]
    row_bytes = cols * width
    if row_bytes <= WINDOW:
        each = max(WINDOW // row_bytes & ~3, 1)
        return [
            Piece(index, tensor.start + row * row_bytes, min(each, rows - row), cols, row, 0)
            for row in range(0, rows, each)
        ]
    each = WINDOW // width
    return [
        Piece(index, tensor.start + row * row_bytes + col * width, 1, min(each, cols - col), row, col)
        for row in range(rows)
        for col in range(0, cols, each)
    ]


def _windows(pieces: list[Piece], tensors: list[StoredTensor]) -> Iterator[list[Piece]]:
    """Neighbouring pieces that fit into one window together."""
    window: list[Piece] = []
    for piece in pieces:
        if window and _end(piece, tensors) - window[0].start > WINDOW:
            yield window
            window = []
        window.append(piece)
    if window:
        yield window


def _end(piece: Piece, tensors: list[StoredTensor]) -> int:
    return piece.start + piece.rows * piece.cols * named(tensors[piece.tensor].dtype).bytes


def _measure(handle: int, window: list[Piece], tensors: list[StoredTensor]) -> Measured:
    start, end = window[0].start, _end(window[-1], tensors)
    if end == start:
        return Measured.empty(len(window))
    base = start - start % mmap.ALLOCATIONGRANULARITY
    if os.fstat(handle).st_size < end:  # to read beyond a file's end would kill the process
        raise ValueError(f"it was cut to {os.fstat(handle).st_size} bytes meanwhile")
    with mmap.mmap(handle, end - base, offset=base, prot=mmap.PROT_READ) as mapped:
        view = np.frombuffer(mapped, np.uint8)
        address = view.ctypes.data - base
        table = np.empty((len(window), FIELDS), np.int64)
        for row, piece in zip(table, window, strict=True):
            width = named(tensors[piece.tensor].dtype).bytes
            row[:] = (
                *(address + piece.start, piece.cols * width, width, piece.rows, piece.cols),
                *(piece.row, 1, piece.col, 1),
            )
        out = Measured.empty(len(window))
        formats = [named(tensors[piece.tensor].dtype) for piece in window]
        for form in set(formats):
            members = np.array([index for index, other in enumerate(formats) if other == form])
            out.put(members, measure(table[members], form, form, threads=1))
        del view
    return out
