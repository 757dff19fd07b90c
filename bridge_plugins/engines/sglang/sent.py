"""In which dtype the trainer sent each HF tensor: the engine's bits are taken as the stream had them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.fingerprint import Part
    from bridge_plugins.layout.probe import Block
    from bridge_plugins.layout.sources import Source


@dataclass(frozen=True)
class Sent:
    """`usual` as torch spells it, empty for the checkpoint's own; `others` by HF name."""

    usual: str = ""
    others: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(dtypes: Mapping[str, str]) -> Sent:
        """Of tensors whose dtypes are given by name: what both sides make of the same tensors is equal."""
        counted = Counter(dtypes.values())
        usual = min(counted, key=lambda dtype: (-counted[dtype], dtype), default="")
        return Sent(usual, {name: dtype for name, dtype in dtypes.items() if dtype != usual})

    def dtype(self, source: Source) -> str:
        """Of an HF tensor, as torch spells it."""
        return self.others.get(source.name) or self.usual or source.dtype

    def part(self, block: Block, tensor: Tensor) -> Part | None:
        """What to fingerprint of `tensor`; None if what was sent can't be told from what is held.

        Held wider than it was sent (a float32 router fed bfloat16), the bits are taken as they were sent.
        """
        import torch  # the trainer's side asks for dtypes alone

        from bridge_plugins.fingerprint import Part

        sent = getattr(torch, self.dtype(block.source), None)
        if tensor.dtype is sent:
            return Part(tensor, block.box)
        if tensor.dtype is torch.float32 and sent in (torch.bfloat16, torch.float16):
            return Part(tensor, block.box, sent)
        return None
