"""Trainer against engine: the replies of all of an engine's ranks, put together and held against a summary."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.fingerprint import Box, Coverage
from bridge_plugins.fingerprint.keys import MASK64

Lanes = tuple[int, int]


@dataclass(frozen=True)
class Served:
    """What an engine serves, in HF terms: whole-tensor fingerprints by HF name, and what could not be told and why."""

    lanes: dict[str, Lanes]
    not_compared: dict[str, str]


@dataclass(frozen=True)
class Comparison:
    """A trainer's version against one engine. `mismatched` and `not_compared` name HF tensors."""

    engine: str
    tensors: int
    compared_bytes: int
    total_bytes: int
    mismatched: tuple[str, ...]
    not_compared: dict[str, str]
    findings: list[Finding] = field(default_factory=list)

    @property
    def consistent(self) -> bool:
        """Every tensor was compared and is equal."""
        return not self.mismatched and not self.not_compared


def read_back(engine: Engine, summary: Summary) -> Served:
    """Ask every rank of `engine` what it holds of each tensor of `summary`, and put the parts together.

    Raises `EngineError` if the engine can't answer.
    """
    replies = engine.ask("readback")
    world = replies[0]["world"] if replies else 0
    absent = sorted(set(range(world)) - {reply["rank"] for reply in replies})
    lanes: dict[str, Lanes] = {}
    not_compared: dict[str, str] = {}
    for name, record in summary.records.items():
        parts = [part for reply in replies for part in reply["tensors"].get(name, [])]
        untold = [reply["untold"][name] for reply in replies if name in reply["untold"]]
        if absent or not replies:
            not_compared[name] = f"ranks {absent} of the engine did not answer"
        elif untold:
            not_compared[name] = untold[0]
        elif not parts:
            not_compared[name] = "no rank of the engine told where it lies"
        else:
            wholes = _wholes(parts, record)
            if isinstance(wholes, str):
                not_compared[name] = wholes
            else:
                # One replica that differs is enough to serve a wrong token.
                lanes[name] = next((whole for whole in wholes if whole != record.lanes), record.lanes)
    return Served(lanes, not_compared)


def compare(summary: Summary, engine: str, served: Served, previous: Summary | None) -> Comparison:
    """Hold what `engine` serves against the trainer's `summary`; explain what differs.

    A tensor that still has the bits of `previous` is called stale; else its bits are looked up in `summary`.
    """
    records = summary.records
    wrong = {
        name: _as_record(records[name], lanes)
        for name, lanes in served.lanes.items()
        if lanes != records[name].lanes
    }
    stale = {
        name
        for name, record in wrong.items()
        if previous and record.lanes == _lanes_of(previous.records, name)
    }
    findings = []
    for layer, names in by_layer(stale).items():
        assert previous is not None
        what = (
            f"{engine} still serves version {previous.header.version} of {len(names)} tensors ({names[0]}, …)"
        )
        findings.append(
            Finding("READBACK", layer, what, "the bucket that carried them was not loaded", names)
        )
    others = {name: record for name, record in wrong.items() if name not in stale}
    for cause in diagnose(others, records):
        findings.append(
            Finding(
                "READBACK",
                cause.where,
                f"{engine}: {cause.what}",
                "the engine's loader put it elsewhere",
                cause.names,
            )
        )
    return Comparison(
        engine=engine,
        tensors=len(records),
        compared_bytes=sum(records[name].nbytes for name in served.lanes),
        total_bytes=sum(record.nbytes for record in records.values()),
        mismatched=tuple(wrong),
        not_compared=served.not_compared,
        findings=findings,
    )


def _wholes(parts: list[dict[str, Any]], record: Record) -> set[Lanes] | str:
    """The whole tensor's lanes from the parts that ranks hold, or why there are none.

    Several, if ranks that hold the same part hold different bits of it: one for each of the odd ones out.
    """
    if any(part["dtype"] != record.dtype for part in parts):
        return f"the engine was probed with {parts[0]['dtype']}, the stream has {record.dtype}"
    if lossy := sum(part["lossy"] for part in parts):
        return f"{lossy} elements are held with other values than {record.dtype} has"
    replicas: dict[tuple[Any, ...], set[Lanes]] = defaultdict(set)
    for part in parts:
        boxes = tuple(sorted(tuple(box) for box in part["boxes"]))
        replicas[boxes].add((part["lanes"][0], part["lanes"][1]))
    coverage = Coverage(tuple(_box(box) for boxes in replicas for box in boxes))
    report = coverage.check(record.shape)
    if not report.complete:
        return f"the engine's ranks hold it incompletely: {report}"
    first = {boxes: min(held) for boxes, held in replicas.items()}
    return {
        _sum([lanes if boxes == odd else usual for boxes, usual in first.items()])
        for odd, held in replicas.items()
        for lanes in held
    }


def _sum(lanes: list[Lanes]) -> Lanes:
    return (sum(one for one, _ in lanes) & MASK64, sum(other for _, other in lanes) & MASK64)


def _box(numbers: tuple[int, ...]) -> Box:
    rows, cols, row, col, row_step, col_step = numbers
    return Box(size=(rows, cols), offset=(row, col), stride=(row_step, col_step))  # type: ignore[arg-type]


def _as_record(record: Record, lanes: Lanes) -> Record:
    return Record(record.name, record.shape, record.dtype, lanes, record.nbytes)


def _lanes_of(records: Mapping[str, Record], name: str) -> Lanes | None:
    return records[name].lanes if name in records else None
