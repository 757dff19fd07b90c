"""An HF name, parsed once: which layer, which expert, and the name inside the layer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache

# The first "<stack>.<number>." is the layer (model.layers.3., visual.blocks.0.); what follows is relative to it.
_LAYER = re.compile(r"^(?P<layer>(?:[^.]+\.)*?(?:layers|blocks|h)\.(?P<number>[0-9]{1,9}))\.(?P<inside>.+)$")
_EXPERT = re.compile(r"(?:^|\.)experts\.([0-9]{1,9})\.")

#: Where the tensors outside any layer are counted: embeddings, the final norm, the output layer.
OUTSIDE = "outside layers"


@dataclass(frozen=True)
class Place:
    """Where a tensor stands in its model.

    `layer` is ``model.layers.3`` or `OUTSIDE`; `inside` is the name relative to it, which is what makes "layer 5
    carries layer 29's weights" a look-up. Numbers are 0-based and global; None where there is none.
    """

    layer: str
    inside: str
    layer_number: int | None = None
    expert_number: int | None = None

    @cached_property
    def stack(self) -> str:
        """What its layers are numbered in: ``model.layers``; empty outside of layers."""
        return self.layer.rpartition(".")[0]

    @cached_property
    def layer_name(self) -> str:
        """``layer 3`` of the decoder; of any other stack with its name: ``visual.blocks layer 3``."""
        stack = self.stack.removeprefix("model.").removeprefix("language_model.")
        return f"layer {self.layer_number}" if stack == "layers" else f"{stack} layer {self.layer_number}"

    def __str__(self) -> str:
        where = [self.layer_name] if self.layer_number is not None else []
        where += [f"expert {self.expert_number}"] if self.expert_number is not None else []
        return " ".join([*where, self.inside])

    @cached_property
    def sort_key(self) -> tuple[int, str, int]:
        """Model order: what lies outside of layers first, then stack by stack, layer by layer."""
        number = -1 if self.layer_number is None else self.layer_number
        return (self.layer_number is not None, self.stack, number)


@lru_cache(1 << 17)  # a model's names are asked for again and again
def place_of(name: str) -> Place:
    """Parse an HF name. Any string has a place."""
    match = _LAYER.match(name)
    if match is None:
        return Place(OUTSIDE, name)
    inside = match["inside"]
    expert = _EXPERT.search(inside)
    return Place(match["layer"], inside, int(match["number"]), int(expert[1]) if expert else None)
