"""Tensors that a loader makes by adding a constant to another one, as Gemma's norms plus one: found out like the rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Offset:
    """A tensor is the one at `parent`, in the same module and of the same shape, plus a constant."""

    parent: str
    plus: float

    def holds(self, tensor: Tensor, parent: Tensor) -> Tensor:
        """Whether it does, bit for bit, as a tensor on their device: nothing is waited for."""
        made = (parent + self.plus).to(tensor.dtype)
        return (made == tensor).all()


@dataclass
class Offsets:
    """Pairs of tensors that may be so related, until a plane shows that they aren't."""

    _left: dict[str, list[Offset]] | None = field(default=None, init=False)

    def see(self, held: Mapping[str, Tensor]) -> None:
        """Look at what one plane left behind; call it after each."""
        if self._left is None:
            self._left = _pairs(held)
        for path, offsets in self._left.items():
            self._left[path] = [
                offset
                for offset in offsets
                if path in held
                and offset.parent in held
                and held[path].shape == held[offset.parent].shape
                and bool(offset.holds(held[path], held[offset.parent]))
            ]

    def found(self) -> dict[str, Offset]:
        """Path → its offset, for those that every plane has borne out."""
        return {path: offsets[0] for path, offsets in (self._left or {}).items() if offsets}


def _pairs(held: Mapping[str, Tensor]) -> dict[str, list[Offset]]:
    modules: dict[str, list[str]] = defaultdict(list)
    for path, tensor in held.items():
        if tensor.is_floating_point() and tensor.element_size() > 1:
            modules[path.rpartition(".")[0]].append(path)
    pairs: dict[str, list[Offset]] = {}
    for paths in modules.values():
        for path in paths:
            for parent in paths:
                one, other = held[path], held[parent]
                if path == parent or one.shape != other.shape or one.device != other.device:
                    continue
                # A whole number: the differences themselves are rounded, element by element.
                plus = float(torch.round((one.float() - other.float()).mean()))
                if plus:
                    pairs.setdefault(path, []).append(Offset(parent, plus))
    return pairs
