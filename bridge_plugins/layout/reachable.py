"""Every tensor that a model's modules hold: parameters, buffers, attributes, and lists and dicts of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor and where it hangs: ``container[key]``. `path` is its dotted name in the model."""

    path: str
    container: Any
    key: Any
    tensor: Tensor


def reachable(model: nn.Module, *, attributes: bool = True) -> Iterator[Held]:
    """Parameters first, then buffers, then attributes (DeepSeek's absorbed weights, say). Views of the same bytes once.

    Not looked into: objects that are no modules. Without `attributes` it is some tens of milliseconds faster.
    """
    seen: set[tuple[object, ...]] = set()
    for place in ("_parameters", "_buffers", "__dict__") if attributes else ("_parameters", "_buffers"):
        for prefix, module in model.named_modules():
            for held in _inside(getattr(module, place), prefix, depth=0):
                tensor = held.tensor
                if opaque(tensor):
                    # Its elements are in no memory: they are made of what it holds (fp8 and scales, say).
                    yield from _inside(vars(tensor), held.path, depth=3)
                    continue
                if tensor.is_meta or not tensor.numel() or tensor.layout is not torch.strided:
                    continue
                region = (
                    tensor.device,
                    tensor.data_ptr(),
                    tuple(tensor.shape),
                    tensor.stride(),
                    tensor.dtype,
                )
                if region not in seen:
                    seen.add(region)
                    yield held


def dense(tensor: Tensor) -> Tensor:
    """`tensor` with its dimensions in the order in which they lie in memory: what a box of it counts in.

    The same as `tensor` unless it is a permuted view, as DeepSeek's absorbed weights are.
    """
    if tensor.is_contiguous() or tensor.dim() < 2:
        return tensor
    strides = tensor.stride()
    permuted = tensor.permute(sorted(range(tensor.dim()), key=lambda axis: -strides[axis]))
    return permuted if permuted.is_contiguous() else tensor


def opaque(tensor: Tensor) -> bool:
    """Whether it is of a class that computes its elements, as Transformer Engine's fp8 parameters are."""
    return type(tensor).__torch_dispatch__ is not Tensor.__torch_dispatch__


def _inside(container: Any, path: str, depth: int) -> Iterator[Held]:
    items = container.items() if isinstance(container, dict) else enumerate(container)
    for key, value in list(items):
        here = f"{path}.{key}" if path else str(key)
        if isinstance(value, Tensor):
            yield Held(here, container, key, value)
        # nn.Module keeps its parameters, buffers and submodules in dicts of its own: those were walked already.
        elif isinstance(value, list | tuple | dict) and depth < 3 and not str(key).startswith("_"):
            yield from _inside(value, here, depth + 1)
