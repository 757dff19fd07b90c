"""Whole tensors in another's place, told in as few sentences as say it all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.experts import ExpertMoves
from bridge_plugins.audit.causes.layers import LayerMoves
from bridge_plugins.audit.causes.siblings import siblings
from bridge_plugins.audit.causes.wording import kind, tensors, where
from bridge_plugins.audit.place import Place, place_of
from bridge_plugins.audit.record import Record

_SHOWN = 3


def moves(owner: Mapping[str, str], reference: Mapping[str, Record]) -> Iterator[Cause]:
    """One cause a sentence, for tensors that hold the bits of another: name → that tensor (`owner`)."""
    relations: dict[str, dict[str, str]] = defaultdict(dict)
    for name, other in owner.items():
        relations[_relation(place_of(name), place_of(other))][name] = other
    yield from LayerMoves(relations["layer"], reference).causes()
    yield from ExpertMoves(relations["expert"], reference).causes()
    yield from siblings(relations["sibling"], owner)
    yield from _others(relations["other"])


def _relation(here: Place, there: Place) -> str:
    if here.layer_number is None or here.stack != there.stack:
        return "other"
    if here.inside == there.inside:
        return "layer"
    if here.layer != there.layer:
        return "other"
    if here.expert_number == there.expert_number:
        return "sibling"
    return "expert" if kind(here) == kind(there) else "other"


def _others(owner: Mapping[str, str]) -> Iterator[Cause]:
    if len(owner) <= _SHOWN:
        for name, other in owner.items():
            yield Cause(str(place_of(name)), f"holds the bits of {other}", (name,))
    else:
        first, other = next(iter(owner.items()))
        what = f"{tensors(owner)} other tensors' bits ({first} has those of {other}, …)"
        yield Cause(where(owner), what.replace(" are ", " hold ", 1), tuple(owner))
