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


def reachable(model: nn.Module) -> Iterator[Held]:
    """Parameters first, then buffers, then attributes (DeepSeek's absorbed weights, say). Views of the same bytes once.

    Not looked into: objects that are no modules.
    """
    seen: set[tuple[object, ...]] = set()
    for place in ("_parameters", "_buffers", "__dict__"):
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


class Saved:
    """A copy, in host memory, of every tensor that a model holds; puts all back and proves it bit for bit."""

    def __init__(self, model: nn.Module) -> None:
        self._held = list(reachable(model))
        self._copies = [held.tensor.detach().to("cpu", copy=True) for held in self._held]
        self._by_path = dict(zip((held.path for held in self._held), self._copies, strict=True))

    def changed(self, held: Held) -> bool:
        """Whether it has other bits than it had, or is another tensor."""
        copy, now = self._by_path.get(held.path), held.tensor.detach().cpu()
        if copy is None or copy.shape != now.shape or copy.dtype != now.dtype:
            return True
        return not torch.equal(bits(now), bits(copy))

    @torch.no_grad()
    def restore(self) -> list[str]:
        """Put the very tensors back where they hung, with the bits they had; give the paths where that failed."""
        lost = []
        for held, copy in zip(self._held, self._copies, strict=True):
            try:
                if not isinstance(held.container, tuple):
                    # A loader may have put a new tensor there; who else knows the old one must see it again.
                    held.container[held.key] = held.tensor
                held.tensor.data.copy_(copy)
            except RuntimeError:  # its shape is another one now
                lost.append(held.path)
                continue
            if not torch.equal(bits(held.tensor.detach().cpu()), bits(copy)):
                lost.append(held.path)
        return lost


def bits(tensor: Tensor) -> Tensor:
    """The bytes of `tensor`, flat, in row-major order."""
    return tensor.contiguous().flatten().view(torch.uint8)
