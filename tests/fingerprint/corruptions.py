"""What can go wrong with a weight on its way: each makes a corrupted copy, or None where it would change nothing."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from bridge_plugins.fingerprint.formats import format_of

Corruption = Callable[[Tensor, Generator], Tensor]


def _two(generator: Generator, size: int) -> tuple[int, int]:
    a, b = generator.choice(size, 2, replace=False).tolist()
    return a, b


def swap_elements(tensor: Tensor, generator: Generator) -> Tensor:
    """Two elements anywhere."""
    out = tensor.clone()
    flat, source = out.view(-1), tensor.reshape(-1)
    a, b = _two(generator, len(flat))
    flat[a], flat[b] = source[b], source[a]
    return out


def swap_rows(tensor: Tensor, generator: Generator) -> Tensor:
    """Two rows."""
    a, b = _two(generator, len(tensor))
    order = torch.arange(len(tensor))
    order[a], order[b] = b, a
    return tensor[order]


def swap_columns(tensor: Tensor, generator: Generator) -> Tensor:
    """Two columns."""
    return swap_rows(tensor.t(), generator).t().contiguous()


def swap_rows_and_columns(tensor: Tensor, generator: Generator) -> Tensor:
    """Two rows, and two columns."""
    return swap_columns(swap_rows(tensor, generator), generator)


def swap_blocks(tensor: Tensor, generator: Generator) -> Tensor:
    """Two quarters: gate and up, query and key, two experts of a stacked tensor."""
    height = len(tensor) // 4
    a, b = _two(generator, 4)
    out = tensor.clone()
    out[a * height : (a + 1) * height] = tensor[b * height : (b + 1) * height]
    out[b * height : (b + 1) * height] = tensor[a * height : (a + 1) * height]
    return out


def swap_column_blocks(tensor: Tensor, generator: Generator) -> Tensor:
    """Two quarters of the columns: two tensor-parallel ranks."""
    return swap_blocks(tensor.t(), generator).t().contiguous()


def transpose(tensor: Tensor, _generator: Generator) -> Tensor:
    """Rows as columns."""
    return tensor.t().contiguous()


def flip_bit(tensor: Tensor, generator: Generator) -> Tensor:
    """One bit of one element."""
    out = tensor.clone()
    raw = out.view(torch.uint8).view(-1)
    raw[generator.integers(len(raw))] ^= 1 << int(generator.integers(8))
    return out


def _flip_signs(tensor: Tensor, rows: list[int], cols: list[int]) -> Tensor:
    out = tensor.clone()
    top = format_of(tensor.dtype).bytes - 1
    raw = out.view(torch.uint8).view(*out.shape, -1)
    for row in rows:
        for col in cols:
            raw[row, col, top] ^= 0x80
    return out


def flip_signs_of_a_pair(tensor: Tensor, generator: Generator) -> Tensor:
    """The signs of two elements of one row."""
    return _flip_signs(tensor, [int(generator.integers(len(tensor)))], list(_two(generator, tensor.shape[1])))


def flip_signs_of_a_rectangle(tensor: Tensor, generator: Generator) -> Tensor:
    """The signs at the crossings of two rows and two columns: the hardest case for an additive fingerprint."""
    return _flip_signs(tensor, list(_two(generator, len(tensor))), list(_two(generator, tensor.shape[1])))


def leave_out_rows(tensor: Tensor, generator: Generator) -> Tensor:
    """Rows never written: zeros in their place."""
    out = tensor.clone()
    first = int(generator.integers(len(tensor)))
    out[first : first + 1 + int(generator.integers(4))] = 0
    return out


def repeat_rows(tensor: Tensor, generator: Generator) -> Tensor:
    """One part written in another's place too, so that counts agree."""
    a, b = _two(generator, 4)
    height = len(tensor) // 4
    out = tensor.clone()
    out[a * height : (a + 1) * height] = tensor[b * height : (b + 1) * height]
    return out


def shift_by_one(tensor: Tensor, _generator: Generator) -> Tensor:
    """Every element one place on."""
    return torch.from_numpy(np.roll(tensor.view(format_of(tensor.dtype).integer).numpy(), 1)).view(
        tensor.dtype
    )


CORRUPTIONS: list[Corruption] = [
    swap_elements,
    swap_rows,
    swap_columns,
    swap_rows_and_columns,
    swap_blocks,
    swap_column_blocks,
    transpose,
    flip_bit,
    flip_signs_of_a_pair,
    flip_signs_of_a_rectangle,
    leave_out_rows,
    repeat_rows,
    shift_by_one,
]
