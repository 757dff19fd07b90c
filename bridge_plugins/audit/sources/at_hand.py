"""A stored tensor as a torch tensor: mapped from its file, read-only, without a copy."""

from __future__ import annotations

import dataclasses
import mmap
import warnings
from collections.abc import Iterator

import torch
from torch import Tensor

from bridge_plugins.fingerprint.formats import named
from bridge_plugins.stored.header import StoredTensor

_PIECE = 1 << 20  #: elements


def pieces(stored: StoredTensor) -> Iterator[Tensor]:
    """The tensor's elements in order, flat, a million at a time."""
    width = named(stored.dtype).bytes
    total = stored.nbytes // width
    for first in range(0, total, _PIECE):
        count = min(_PIECE, total - first)
        yield load(
            dataclasses.replace(
                stored, shape=(count,), start=stored.start + first * width, nbytes=count * width
            )
        )


def load(stored: StoredTensor) -> Tensor:
    """The tensor, mapped as long as somebody holds it. Must not be written to."""
    form = named(stored.dtype)
    if not stored.nbytes:
        return torch.empty(stored.shape, dtype=form.dtype)
    base = stored.start - stored.start % mmap.ALLOCATIONGRANULARITY
    with stored.file.open("rb") as stream:
        mapped = mmap.mmap(
            stream.fileno(), stored.start + stored.nbytes - base, offset=base, prot=mmap.PROT_READ
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that it is read-only
        flat = torch.frombuffer(mapped, dtype=torch.uint8, offset=stored.start - base)
        if (stored.start - base) % form.bytes:  # torch can't look at elements there
            flat = flat.clone()
        return flat.view(form.dtype).reshape(stored.shape)
