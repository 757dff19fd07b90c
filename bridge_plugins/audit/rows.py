"""A summary row by row: by layer, by expert, or by tensor."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridge_plugins.audit.place import OUTSIDE, Place, place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint import Digest, tensor_term


class Row(msgspec.Struct, frozen=True):
    """Some tensors together, or one of them: then `digest` is its fingerprint, and `dtype` and `shape` are given.

    `norm` is the root of the sum of squares; `absmax` the largest finite magnitude; `zeros` and `nonfinite` count
    elements.
    """

    name: str
    tensors: int
    elements: int
    nbytes: int
    norm: float
    absmax: float
    zeros: int
    nonfinite: int
    digest: str
    dtype: str = ""
    shape: tuple[int, ...] = ()

    @property
    def marks(self) -> str:
        """What a reader should stop at."""
        found = [f"{self.nonfinite:,} NaN/Inf"] if self.nonfinite else []
        return " ".join([*found, "zeros"] if self.elements and self.zeros == self.elements else found)


def rows(
    summary: Summary, *, layer: int | None = None, expert: int | None = None, names: bool = False
) -> list[Row]:
    """The rows of a summary, in model order: its layers, unless more is asked for.

    Args:
        summary: with records, unless its layers are all that is asked for.
        layer: only this layer (of every stack that has it), with a row for each expert and each other tensor.
        expert: only this expert, of each layer.
        names: a row for each tensor.

    Raises `UsageError` if there is no such layer or expert, or if the summary has no records.
    """
    if not summary.records and summary.layers:
        if layer is not None or expert is not None or names:
            raise UsageError(
                f"rank {summary.header.rank}'s summary has layers only, since it yields what another rank yields; "
                "name the folder with all ranks' files"
            )
        return [
            Row(place_name(one.name), one.tensors, one.elements, one.nbytes, one.norm, one.absmax, 0, one.nonfinite,
                one.digest)
            for one in summary.layers
        ]  # fmt: skip
    placed = [(place_of(name), record) for name, record in summary.records.items()]
    chosen = [
        (place, record)
        for place, record in placed
        if layer in (None, place.layer_number) and expert in (None, place.expert_number)
    ]
    if not chosen and placed:
        asked = [f"layer {layer}"] if layer is not None else []
        asked += [f"expert {expert}"] if expert is not None else []
        raise UsageError(f"{summary.header.model} has no {' '.join(asked)}; see the table of its layers")
    each = names or (layer is not None and expert is not None)
    groups: dict[str, list[tuple[Place, Record]]] = {}
    # Stable: inside a layer tensors keep the order in which they came.
    for place, record in sorted(chosen, key=lambda pair: (pair[0].sort_key, _expert(pair[0]))):
        groups.setdefault(_group(place, record, layer, expert, each), []).append((place, record))
    return [_row(name, members) for name, members in groups.items()]


def place_name(layer: str) -> str:
    """``layer 3`` for ``model.layers.3``, as findings say it."""
    return layer if layer == OUTSIDE else place_of(f"{layer}.x").layer_name


def _group(place: Place, record: Record, layer: int | None, expert: int | None, each: bool) -> str:
    if each or (layer is not None and place.expert_number is None):
        return record.name
    at = place_name(place.layer)
    return at if layer is None and expert is None else f"{at} expert {place.expert_number}"


def _expert(place: Place) -> int:
    return -1 if place.expert_number is None else place.expert_number


def _row(name: str, members: Iterable[tuple[Place, Record]]) -> Row:
    members = list(members)
    records = [record for _, record in members]
    single = records[0] if len(records) == 1 and records[0].name == name else None
    digest = Digest(single.lanes) if single else sum((_term(*member) for member in members), Digest())
    return Row(
        name=name,
        tensors=len(records),
        elements=sum(record.elements for record in records),
        nbytes=sum(record.nbytes for record in records),
        norm=sum(record.norm**2 for record in records) ** 0.5,
        absmax=max(record.absmax for record in records),
        zeros=sum(record.zeros for record in records),
        nonfinite=sum(record.nonfinite for record in records),
        digest=str(digest),
        dtype=single.dtype if single else "",
        shape=single.shape if single else (),
    )


def _term(place: Place, record: Record) -> Digest:
    return tensor_term(place.inside, record.dtype, record.shape, record.lanes)
