"""A Megatron parameter's name, parsed once into a value."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import re
from dataclasses import dataclass

#: What a wrapper puts into the names of what it wraps: torch.compile, activation checkpointing, FSDP.
WRAPPERS = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})

_NUMBERED = re.compile(r"(weight|bias)(\d+)")


@dataclass(frozen=True)
class ParamName:
    """A name's parts, and where in them stand the layer number and the expert number, if any.

    ``decoder.layers.3.mlp.experts.linear_fc1.weight2`` has layer number 3 and expert number 2. Only the first
    ``layers.N`` counts, and only where ``layers`` is a whole part: a layer may well hold layers of its own. A
    wrapper's part (`WRAPPERS`, or a leading ``module``) belongs to no name.

    Attributes:
        parts: what stands between the dots.
        layer_at: index in `parts` of the layer number.
        experts_at: index in `parts` of the ``experts`` of a mixture whose expert number is in the name.
        expert_at: index in `parts` of the part that ends in the expert number.
    """

    parts: tuple[str, ...]
    layer_at: int | None = None
    experts_at: int | None = None
    expert_at: int | None = None

    @classmethod
    def parse(cls, text: str) -> ParamName:
        """Parse a local or a global name: the grammar is the same. Raises nothing; any text is a name."""
        return _parse(text)

    @property
    def layer(self) -> int | None:
        """The layer number that the name gives."""
        return None if self.layer_at is None else int(self.parts[self.layer_at])

    @property
    def expert(self) -> int | None:
        """The expert number that the name gives."""
        return None if self.expert_at is None else int(_split_number(self.parts[self.expert_at])[1])

    @property
    def layer_path(self) -> tuple[str, ...]:
        """The way from the model to the layer; empty without one."""
        return () if self.layer_at is None else self.parts[: self.layer_at + 1]

    @property
    def experts_path(self) -> tuple[str, ...]:
        """The way from the model to the module that holds the experts; empty without one."""
        return () if self.experts_at is None else self.parts[: self.experts_at + 1]

    def numbered(self, *, layer: int | None = None, expert: int | None = None) -> ParamName:
        """The same name with these numbers; None leaves a number as it is."""
        parts = list(self.parts)
        if layer is not None and self.layer_at is not None:
            parts[self.layer_at] = str(layer)
        if expert is not None and self.expert_at is not None:
            parts[self.expert_at] = f"{_split_number(parts[self.expert_at])[0]}{expert}"
        return dataclasses.replace(self, parts=tuple(parts))

    def __str__(self) -> str:
        return ".".join(self.parts)


@functools.lru_cache(maxsize=200_000)
def _parse(text: str) -> ParamName:
    raw = text.split(".")
    while raw and (raw[0] == "module" or raw[0] in WRAPPERS):
        del raw[0]
    parts = tuple(part for part in raw if part not in WRAPPERS)
    experts_at, expert_at = _find_expert(parts)
    return ParamName(parts, _find_layer(parts), experts_at, expert_at)


def _find_layer(parts: tuple[str, ...]) -> int | None:
    for index in range(1, len(parts)):
        if parts[index - 1] == "layers" and _is_number(parts[index]):
            return index
    return None


def _find_expert(parts: tuple[str, ...]) -> tuple[int | None, int | None]:
    """``experts.local_experts.2.…`` (SequentialMLP) or ``experts.linear_fc1.….weight2`` (grouped)."""
    for index, (part, following) in enumerate(itertools.pairwise(parts)):
        if part != "experts":
            continue
        if following == "local_experts":
            numbered = parts[index + 2 : index + 3]
            return (index, index + 2) if numbered and _is_number(numbered[0]) else (None, None)
        if following.startswith("linear_fc"):
            for at in range(index + 2, len(parts)):
                if _NUMBERED.fullmatch(parts[at]):
                    return index, at
    return None, None


def _is_number(part: str) -> bool:
    return part.isascii() and part.isdigit()


def _split_number(part: str) -> tuple[str, str]:
    match = _NUMBERED.fullmatch(part)
    return (match[1], match[2]) if match else ("", part)
