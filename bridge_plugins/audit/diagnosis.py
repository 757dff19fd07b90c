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
    owners: dict[object, list[str]] = defaultdict(list)
    for name, record in reference.items():
        owners[_bits(record)].append(name)
    # Bits that several tensors have (constants, say) tell nothing of where they came from.
    owner = {
        name: owners[_bits(record)][0] for name, record in wrong.items() if len(owners[_bits(record)]) == 1
    }
    moved: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name, other in owner.items():
        moved[_relation(name, other, mutual=owner.get(other) == name)].append(name)
    causes = [Cause(where, what, tuple(names)) for (where, what), names in moved.items()]
    zero = [name for name, record in wrong.items() if record.lanes == (0, 0) and name not in owner]
    unknown = [name for name in wrong if name not in owner and name not in zero]
    return [
        *sorted(causes, key=lambda cause: cause.where),
        *_by_layer(zero, "are all zeros"),
        *_by_layer(unknown, "hold bits that no other tensor of the reference has"),
    ]


def _bits(record: Record) -> object:
    return (record.lanes, record.dtype, record.shape)


def _relation(name: str, other: str, *, mutual: bool) -> tuple[str, str]:
    """``(where, what)`` of a tensor that holds the bits of `other`, at the coarsest grain that says it all."""
    here, there = place_of(name), place_of(other)
    if here.layer_number is None or there.layer_number is None:
        return str(here), f"holds the bits of {other}"
    if here.inside == there.inside:
        return here.layer_name, f"carries the weights of {there.layer_name}"
    if (
        here.expert_number is not None
        and here.expert_number != there.expert_number
        and _same_but_expert(here, there)
    ):
        return (
            f"{here.layer_name} expert {here.expert_number}",
            f"carries the weights of {there.layer_name} expert {there.expert_number}",
        )
    for one, second in _EXCHANGED:
        both = {here.inside, there.inside}
        if mutual and here.layer == there.layer and both == {here.inside, _other(here.inside, one, second)}:
            return here.layer_name, f"{one} and {second} are exchanged"
    return str(here), f"holds the bits of {other}"


def _same_but_expert(here: Place, there: Place) -> bool:
    return here.inside == there.inside.replace(
        f"experts.{there.expert_number}.", f"experts.{here.expert_number}."
    )


def _other(inside: str, one: str, second: str) -> str:
    return inside.replace(one, second) if one in inside else inside.replace(second, one)


def _by_layer(names: list[str], what: str) -> Iterator[Cause]:
    for layer, members in by_layer(names).items():
        count = members[0] if len(members) == 1 else f"{len(members)} tensors ({members[0]}, …)"
        yield Cause(layer, f"{count} {what}", members)
