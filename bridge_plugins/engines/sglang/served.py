"""What an engine serves, with no trainer's summary to ask about: for one engine held against another."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence

import torch

from bridge_plugins.audit.record import Record
from bridge_plugins.engines.sglang.answer import Answer, Held
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.whole import Whole, whole_of
from bridge_plugins.errors import EngineError
from bridge_plugins.fingerprint.value import sum_of_lanes


def served_records(engine: Engine) -> tuple[dict[str, Record], dict[str, str]]:
    """A record of every HF tensor that `engine` holds, and what can't be told, by name, and why.

    The shape is that of rows × last dimension, since an engine does not know how its checkpoint had it.

    Raises:
        EngineError: if the engine, or a rank of it, does not answer.
    """
    answers = engine.ask("records", Answer)
    ranks = {answer.rank for answer in answers}
    if not answers or ranks != set(range(answers[0].world)):
        raise EngineError(f"{engine.url}: only ranks {sorted(ranks)} of its world answered")
    untold: dict[str, str] = {}
    held: dict[str, list[tuple[int, Held]]] = defaultdict(list)
    for answer in answers:
        untold |= answer.untold | answer.derived
        for name, copies in answer.tensors.items():
            held[name] += [(answer.rank, copy) for copy in copies]
    records: dict[str, Record] = {}
    for name, parts in held.items():
        found = _record(name, parts)
        if isinstance(found, str):
            untold[name] = found
        elif name not in untold:
            records[name] = found
    return records, untold


def _record(name: str, parts: Sequence[tuple[int, Held]]) -> Record | str:
    copies: dict[tuple[int, ...], set[tuple[int, int]]] = defaultdict(set)
    for _, part in parts:
        copies[part.box].add(part.lanes)
    if any(len(lanes) > 1 for lanes in copies.values()):
        return "copies of it differ inside the engine"
    each = [next(part for _, part in parts if part.box == place) for place in copies]
    shape, dtype = _shape(each), each[0].dtype
    nbytes = math.prod(shape) * getattr(torch, dtype).itemsize
    # All places together, or a copy that is whole by itself beside one that is cut.
    for held in (each, *([one] for one in each)):
        lanes = sum_of_lanes(one.lanes for one in held)
        record = Record(
            name, shape, dtype, lanes, nbytes,
            norm=sum(one.squares for one in held) ** 0.5,
            absmax=max(one.absmax for one in held),
            zeros=sum(one.zeros for one in held),
            nonfinite=sum(one.nonfinite for one in held),
        )  # fmt: skip
        whole = whole_of(parts, record)
        if whole == Whole(lanes):
            return record
    return whole if isinstance(whole, str) else "copies of it differ inside the engine"


def _shape(parts: Sequence[Held]) -> tuple[int, ...]:
    rows = max(row + (many - 1) * step + 1 for many, _, row, _, step, _ in (part.box for part in parts))
    cols = max(col + (many - 1) * step + 1 for _, many, _, col, _, step in (part.box for part in parts))
    return (cols,) if rows == 1 else (rows, cols)
