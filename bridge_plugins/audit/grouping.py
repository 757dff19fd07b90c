"""Many tensors, few causes: names gathered by the layer that they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bridge_plugins.audit.causes.wording import where
from bridge_plugins.audit.place import OUTSIDE, place_of


def by_layer(names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """``"layer 3"`` (or the tensor's own name, outside layers) → its names, in model order."""
    grouped: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (place_of(name).sort_key, name)):
        place = place_of(name)
        grouped.setdefault(name if place.layer == OUTSIDE else place.layer_name, []).append(name)
    return {layer: tuple(members) for layer, members in grouped.items()}


def count(names: tuple[str, ...], one: str = "", many: str = "") -> str:
    """The one name, or how many there are and the first of them; followed by the verb that fits."""
    if len(names) == 1:
        return f"{names[0]} {one}".rstrip()
    return f"{len(names)} tensors ({names[0]}, …) {many}".rstrip()


def at(names: Sequence[str]) -> str:
    """Where these tensors stand: the one's place, or layers and experts of many."""
    return str(place_of(names[0])) if len(names) == 1 else where(names)


def are(names: Sequence[str]) -> str:
    """``is`` after the place of one tensor, or how many there are: ``64 tensors (NAME, …) are``."""
    return "is" if len(names) == 1 else count(tuple(names), many="are")
