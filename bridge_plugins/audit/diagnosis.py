"""What happened: fingerprints that are not where they should be are looked up where they are. One sentence a cause."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.place import Place, place_of
from bridge_plugins.audit.record import Record

_EXCHANGED = (("gate_proj", "up_proj"), ("q_proj", "k_proj"), ("k_proj", "v_proj"), ("q_a_proj", "kv_a_proj"))


@dataclass(frozen=True)
class Cause:
    """One cause and the tensors that it explains."""

    where: str
    what: str
    names: tuple[str, ...]


def diagnose(wrong: Mapping[str, Record], reference: Mapping[str, Record]) -> list[Cause]:
    """Explain tensors whose bits are not the reference's of the same name, by whose bits they are.

    Args:
        wrong: what was found, by HF name.
        reference: what should be there, by HF name, for the whole model.
    """
    owners = {record.lanes: name for name, record in reference.items()}
    # Tensors that came from elsewhere, gathered by (where they are, where they came from).
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    unknown: list[str] = []
    for name, record in wrong.items():
        owner = owners.get(record.lanes)
        if owner is None:
            unknown.append(name)
        else:
            moved[_relation(place_of(name), place_of(owner))].append(name)
    causes = [Cause(where, what, tuple(names)) for (where, what), names in moved.items()]
    return [*sorted(causes, key=lambda cause: cause.where), *_unknown(unknown)]


def _relation(here: Place, there: Place) -> tuple[str, str]:
    """``(where, what)`` of a tensor at `here` that holds the bits of `there`, at the coarsest grain that says it all."""
    if here.layer_number != there.layer_number and here.inside == there.inside:
        return f"layer {here.layer_number}", f"carries the weights of layer {there.layer_number}"
    if here.expert_number != there.expert_number:
        return (
            f"layer {here.layer_number} expert {here.expert_number}",
            f"carries the weights of layer {there.layer_number} expert {there.expert_number}",
        )
    for one, other in _EXCHANGED:
        if (one in here.inside and other in there.inside) or (other in here.inside and one in there.inside):
            return f"layer {here.layer_number}", f"{one} and {other} are exchanged"
    return str(here), f"holds the bits of {there}"


def _unknown(names: list[str]) -> Iterator[Cause]:
    for layer, members in by_layer(names).items():
        count = members[0] if len(members) == 1 else f"{len(members)} tensors ({members[0]}, …)"
        yield Cause(layer, f"{count} hold bits that no tensor of the reference has", members)
