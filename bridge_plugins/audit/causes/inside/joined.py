"""Tensors that a trainer keeps as one, gate and up or q, k and v, were cut from it at the wrong rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor

from bridge_plugins.audit.causes.inside.case import Tensors, View
from bridge_plugins.audit.causes.inside.fused_qkv import HEADS, apart, by_group
from bridge_plugins.audit.causes.inside.rows import Rows
from bridge_plugins.audit.record import Record

_JOINED: tuple[Sequence[str], ...] = (("q_proj", "k_proj", "v_proj"), ("gate_proj", "up_proj"), ("w1", "w3"))
_SHARDS = (2, 4, 8, 16)
_PATIENCE = 3  #: projections of one kind that nothing explains, before that kind is given up


def explain(
    wrong: Mapping[str, Record], reference: Mapping[str, Record], found: Tensors, expected: Tensors
) -> Iterator[tuple[str, list[str]]]:
    """``q_proj, k_proj and v_proj are cut as slabs from a projection that lies by group``, and the wrong names of each."""
    failed: Counter[Sequence[str]] = Counter()
    for words, names in _projections(wrong, reference):
        if failed[words] >= _PATIENCE:
            continue
        right = [reference[name] for name in names]
        seen = [wrong.get(name, reference[name]) for name in names]
        if what := _what(words, seen, right, _all(found, names), _all(expected, names)):
            yield what, [name for name in names if name in wrong]
        else:
            failed[words] += 1


def _projections(
    wrong: Mapping[str, Record], reference: Mapping[str, Record]
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The names of each projection of which two tensors are wrong, or more."""
    candidates: dict[tuple[str, ...], Sequence[str]] = {}
    for name in wrong:
        for words in _JOINED:
            for word in words:
                before, found, after = name.partition(f".{word}.")
                if found:
                    candidates[tuple(f"{before}.{each}.{after}" for each in words)] = words
    for names, words in candidates.items():
        if sum(name in wrong for name in names) > 1 and all(name in reference for name in names):
            yield words, names


def _all(at_hand: Tensors, names: Sequence[str]) -> list[Tensor] | None:
    tensors = [tensor for tensor in map(at_hand, names) if tensor is not None]
    return tensors if len(tensors) == len(names) else None


def _what(
    words: Sequence[str],
    wrong: list[Record],
    right: list[Record],
    found: list[Tensor] | None,
    expected: list[Tensor] | None,
) -> str | None:
    if (found is None and expected is None) or not _same_elements(wrong, right):
        return None
    counts = [record.shape[0] for record in right]
    at_hand = found if found is not None else expected
    assert at_hand is not None
    rows, target = Rows(at_hand), [record.lanes for record in (right if found is not None else wrong)]
    for what, undo, redo in _gate_up(words, counts) if len(words) == 2 else _qkv(words, counts):
        if rows.dealt(undo if found is not None else redo) == target:
            return what
    return None


def _same_elements(wrong: list[Record], right: list[Record]) -> bool:
    """Whether all together can have the same elements in another order."""
    if any(
        (a.dtype, a.shape) != (b.dtype, b.shape) or not b.shape for a, b in zip(wrong, right, strict=True)
    ):
        return False
    if not all(record.norm for record in (*wrong, *right)):  # no statistics were taken
        return True
    one, other = (
        (max(r.absmax for r in records), sum(r.zeros for r in records), sum(r.nonfinite for r in records))
        for records in (wrong, right)
    )
    return one == other


def _gate_up(words: Sequence[str], rows: list[int]) -> Iterator[tuple[str, View, View]]:
    both = " and ".join(words)
    for shards in _SHARDS:
        if rows[0] == rows[1] and rows[0] % shards == 0:
            apart, by_shard = _swapped(shards, 2), _swapped(2, shards)
            yield (
                f"{both} are the halves of {shards} TP shards glued together, each of which has both",
                apart,
                by_shard,
            )
            yield f"{both} are glued from the halves of {shards} TP shards of both together", by_shard, apart


def _qkv(words: Sequence[str], rows: list[int]) -> Iterator[tuple[str, View, View]]:
    all_three = f"{', '.join(words[:-1])} and {words[-1]}"
    q, k, v = rows
    for head in HEADS if k == v and q % k == 0 else ():
        groups, queries = k // head, q // k
        if k % head == 0 and groups > 1:
            layout = f"{groups} groups of {queries} + 2 heads of {head}"
            split, glued = apart(head, groups, queries), by_group(head, groups, queries)
            slabs = "all q, all k, all v"
            yield (
                f"{all_three} are cut as {slabs} from a projection that lies by group ({layout})",
                split,
                glued,
            )
            yield (
                f"{all_three} are cut by group ({layout}) from a projection that lies as {slabs}",
                glued,
                split,
            )


def _swapped(first: int, second: int) -> View:
    """Rows seen as first x second blocks become second x first."""

    def view(tensor: Tensor) -> Tensor:
        return tensor.reshape(first, second, -1).transpose(0, 1).reshape(tensor.shape)

    return view
