"""What happened, one sentence a cause: fingerprints that are not where they should be are looked up where they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from typing import TYPE_CHECKING

from bridge_plugins.audit.causes.cause import Cause
from bridge_plugins.audit.causes.lookup import bits, look_up, owners
from bridge_plugins.audit.causes.moves import moves
from bridge_plugins.audit.causes.one_word import one_word
from bridge_plugins.audit.causes.powers import powers
from bridge_plugins.audit.causes.wording import kinds, tensors, where
from bridge_plugins.audit.record import Record

if TYPE_CHECKING:
    from bridge_plugins.audit.causes.inside.case import Tensors

__all__ = ["Cause", "diagnose"]


def diagnose(
    wrong: Mapping[str, Record],
    reference: Mapping[str, Record],
    *,
    earlier: Mapping[str, Mapping[str, Record]] | None = None,
    found: Tensors | None = None,
    expected: Tensors | None = None,
    adapters: Tensors | None = None,
) -> list[Cause]:
    """Explain tensors whose bits are not the reference's of the same name. Says nothing that bits don't prove.

    Args:
        wrong: what was found, by HF name.
        reference: what should be there, by HF name, for the whole model.
        earlier: earlier versions of the reference by what to call them, as in ``version 3``.
        found, expected: give the tensors of `wrong` and of `reference` by name, or None; with the one or the other at
            hand, what happened inside of a tensor is looked into, too.
        adapters: what merging its adapter adds to a tensor, by the tensor's name, or None.
    """
    left = dict(wrong)
    causes: list[Cause] = []

    def take(found: Iterable[Cause]) -> None:
        for cause in found:
            causes.append(cause)
            for name in cause.names:
                left.pop(name, None)

    for label, records in (earlier or {}).items():
        take(_stale(left, label, records))
    take(_zeros(left, reference))
    candidates = look_up(left, reference)
    take(moves(owners(candidates), reference))
    take(powers(left, reference))
    if left and (found or expected):
        from bridge_plugins.audit.causes.inside import all as inside  # torch, where tensors are at hand

        take(inside.explain(left, reference, found or _none, expected or _none, adapters or _none))
    take(one_word(left, reference))
    take(_unknown(left, candidates.keys()))
    return causes


def _none(_: str) -> None:
    return None


def _stale(wrong: Mapping[str, Record], label: str, records: Mapping[str, Record]) -> Iterator[Cause]:
    names = [
        name for name, record in wrong.items() if name in records and bits(record) == bits(records[name])
    ]
    if names:
        yield Cause(where(names), f"{tensors(names)} as in {label}: nothing changed since", tuple(names))


def _zeros(wrong: Mapping[str, Record], reference: Mapping[str, Record]) -> Iterator[Cause]:
    # A bias may be all zeros itself: then that is not what is wrong.
    right = {name for name in wrong if name in reference and reference[name].lanes == (0, 0)}
    names = [name for name, record in wrong.items() if record.lanes == (0, 0) and name not in right]
    if names:
        yield Cause(where(names), f"{tensors(names)} all zeros", tuple(names))


def _unknown(wrong: Iterable[str], known: Set[str]) -> Iterator[Cause]:
    shared = [name for name in wrong if name in known]
    if shared:
        yield Cause(where(shared), f"{tensors(shared)} like several others of the reference", tuple(shared))
    names = [name for name in wrong if name not in known]
    if names:
        yield Cause(where(names), f"{kinds(names)} unlike every tensor of the reference", tuple(names))
