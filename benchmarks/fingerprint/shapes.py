"""The Hugging Face tensors of Qwen3-30B-A3B, by their shapes: 18,867 of them, 61 GB in bfloat16."""

from __future__ import annotations

import torch
from torch import Tensor

HIDDEN, EXPERTS, INNER, VOCABULARY, LAYERS = 2048, 128, 768, 151936, 48
HEADS, GROUPS, HEAD = 32, 4, 128


def experts() -> list[tuple[int, ...]]:
    """Gate, up and down of each expert of a layer."""
    return [(INNER, HIDDEN), (INNER, HIDDEN), (HIDDEN, INNER)] * EXPERTS


def projections() -> list[tuple[int, ...]]:
    """Query, key, value and output of a layer."""
    return [(HEADS * HEAD, HIDDEN), (GROUPS * HEAD, HIDDEN), (GROUPS * HEAD, HIDDEN), (HIDDEN, HEADS * HEAD)]


def layer() -> list[tuple[int, ...]]:
    """All tensors of a layer."""
    norms: list[tuple[int, ...]] = [(HEAD,), (HEAD,), (HIDDEN,), (HIDDEN,)]
    return projections() + norms + [(EXPERTS, HIDDEN)] + experts()


def whole() -> list[tuple[int, ...]]:
    """All tensors of the model."""
    return [(VOCABULARY, HIDDEN), (VOCABULARY, HIDDEN), (HIDDEN,)] + layer() * LAYERS


def slice_of_eight() -> list[tuple[int, ...]]:
    """The large tensors of eight layers: 3,104, 10 GB in bfloat16."""
    return (experts() + projections()) * 8


def narrowed(shapes: list[tuple[int, ...]], by: int) -> list[tuple[int, ...]]:
    """The same number of tensors with every dimension divided, at least 1."""
    return [tuple(max(1, size // by) for size in shape) for shape in shapes]


def weights(shapes: list[tuple[int, ...]], device: str, dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Random tensors as weights are: normal, with a standard deviation of 0.02."""
    generator = torch.Generator(device).manual_seed(0)
    return [
        torch.empty(shape, dtype=dtype, device=device).normal_(0, 0.02, generator=generator)
        for shape in shapes
    ]


def total_bytes(tensors: list[Tensor]) -> int:
    """Bytes of all of them."""
    return sum(tensor.nbytes for tensor in tensors)
