"""Many tensors in few words: ranges of layers and experts, and the part of a name that matters."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable

from bridge_plugins.audit.place import Place, place_of

_EXPERT = re.compile(r"(?<=experts\.)\d+(?=\.)")
_SHOWN = 3


def ranges(numbers: Iterable[int]) -> str:
    """``{0, 1, 2, 5}`` as ``0-2, 5``."""
    parts = []
    for _, run in itertools.groupby(enumerate(sorted(set(numbers))), key=lambda pair: pair[1] - pair[0]):
        members = [number for _, number in run]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ", ".join(parts)


def numbered(noun: str, numbers: Iterable[int]) -> str:
    """``layer 3``, ``layers 0-2, 5``."""
    distinct = set(numbers)
    return f"{noun}{'s' if len(distinct) > 1 else ''} {ranges(distinct)}"


def kind(place: Place) -> str:
    """The name inside a layer without the expert's number: what such tensors of all experts share."""
    return _EXPERT.sub("*", place.inside)


def leaf(name: str) -> str:
    """``o_proj`` of ``model.layers.3.self_attn.o_proj.weight``: the word that people say."""
    parts = [part for part in name.split(".") if not part.isdigit() and part != "*"]
    return parts[-2] if len(parts) > 1 and parts[-1] == "weight" else parts[-1]


def leaves(names: Iterable[str], each: str = "") -> str:
    """``gate_proj, up_proj`` for a few kinds of tensors, else how many tensors there are."""
    members = list(names)
    kinds = sorted({kind(place_of(name)) for name in members})
    said = sorted({leaf(kind) for kind in kinds})
    if len(kinds) <= _SHOWN and len(said) == len(kinds):
        return ", ".join(said)
    return f"{len(members)} tensors{each}"


def listed(names: Iterable[str]) -> str:
    """``gate_proj, up_proj`` for a few kinds of tensors of layers, else the first name and that there are more."""
    members = list(names)
    kinds = {kind(place_of(name)) for name in members}
    said = sorted({leaf(inside) for inside in kinds})
    inside = all(place_of(name).layer_number is not None for name in members)
    return ", ".join(said) if inside and len(said) == len(kinds) <= _SHOWN else f"{members[0]}, …"


def tensors(names: Iterable[str]) -> str:
    """``NAME is``, or ``12 tensors (NAME, …) are``."""
    members = list(names)
    return f"{members[0]} is" if len(members) == 1 else f"{len(members)} tensors ({members[0]}, …) are"


def kinds(names: Iterable[str]) -> str:
    """``NAME is``, or ``12 tensors (k_proj, q_proj, v_proj) are``: kinds tell which conversion to look at."""
    members = list(names)
    return f"{members[0]} is" if len(members) == 1 else f"{len(members)} tensors ({listed(members)}) are"


def layers(stack: str, numbers: Iterable[int]) -> str:
    """``layers 0-3``; of another stack than the decoder's with its name."""
    short = stack.removeprefix("model.").removeprefix("language_model.")
    return numbered("layer" if short in ("layers", "") else f"{short} layer", numbers)


def where(names: Iterable[str]) -> str:
    """The layers and experts of these tensors: ``layers 0-47 experts 0-7``; a name itself outside of layers."""
    outside: list[str] = []
    stacks: dict[str, dict[int, set[int | None]]] = defaultdict(lambda: defaultdict(set))
    for name in names:
        place = place_of(name)
        if place.layer_number is None:
            outside.append(name)
        else:
            stacks[place.stack][place.layer_number].add(place.expert_number)
    said = outside if len(outside) <= _SHOWN else [f"{len(outside)} tensors outside of layers"]
    for stack, experts in stacks.items():
        alike: dict[frozenset[int | None], list[int]] = defaultdict(list)
        for layer, members in experts.items():
            alike[frozenset(members)].append(layer)
        if len(alike) > _SHOWN:  # too many ways to be different: the layers will do
            alike = {frozenset({None}): list(experts)}
        for common, at in sorted(alike.items(), key=lambda pair: pair[1]):
            numbers = [number for number in common if number is not None]
            suffix = f" {numbered('expert', numbers)}" if numbers and None not in common else ""
            said.append(layers(stack, at) + suffix)
    return "; ".join(said)
