"""Every tensor that a model can reach, once per storage region: parameters, buffers and plain attributes alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, eq=False)
class Held:
    """A tensor and where it hangs: a module and the name there. `path` is its dotted name in the model."""

    path: str
    module: nn.Module
    name: str
    tensor: Tensor


def reachable(model: nn.Module) -> Iterator[Held]:
    """Parameters first, then buffers, then attributes (DeepSeek's absorbed weights, say). Views of the same bytes once."""
    seen: set[tuple[object, ...]] = set()
    for place in ("_parameters", "_buffers", "__dict__"):
        for prefix, module in model.named_modules():
            for name, tensor in list(getattr(module, place).items()):
                if not isinstance(tensor, Tensor) or tensor.is_meta or not tensor.numel():
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
                    yield Held(f"{prefix}.{name}" if prefix else name, module, name, tensor)


class Saved:
    """A copy, in host memory, of every tensor that a model can reach; puts all back and proves it bit for bit."""

    def __init__(self, model: nn.Module) -> None:
        self._held = list(reachable(model))
        self._copies = [held.tensor.detach().to("cpu", copy=True) for held in self._held]

    @torch.no_grad()
    def restore(self) -> list[str]:
        """Put the very tensors back where they hung, with the bits they had; give the paths where that failed."""
        for held, copy in zip(self._held, self._copies, strict=True):
            _hang(held)
            held.tensor.data.copy_(copy)
        return [
            held.path
            for held, copy in zip(self._held, self._copies, strict=True)
            if not torch.equal(_bits(held.tensor.detach().cpu()), _bits(copy))
        ]


def _hang(held: Held) -> None:
    # A loader may have put a new tensor in the place of the old one; what else refers to the old one must see it again.
    places: tuple[dict[str, Any], ...] = (held.module._parameters, held.module._buffers, held.module.__dict__)
    for place in places:
        if held.name in place:
            place[held.name] = held.tensor
            return
    setattr(held.module, held.name, held.tensor)


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().flatten().view(torch.uint8)
