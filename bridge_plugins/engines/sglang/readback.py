"""Trainer against engine: the answers of all of an engine's ranks, put together and held against a summary."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.answer import Answer, Held
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.fingerprint import Box, Coverage
from bridge_plugins.fingerprint.keys import MASK64

Lanes = tuple[int, int]


@dataclass(frozen=True)
class Served:
    """What an engine serves, in HF terms: whole-tensor fingerprints by HF name, and what could not be told and why.

    `not_compared` is by HF name, or by the engine's own path for tensors that it computes from others.
    """

    lanes: dict[str, Lanes]
    not_compared: dict[str, str]


@dataclass(frozen=True)
class Comparison:
    """A trainer's version against one engine. `mismatched` and `not_compared` name tensors."""

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
    usual, others = _dtypes(summary)
    answers = engine.ask("readback", Answer, dtype=usual, dtypes=others)
    return _put_together(answers, summary)


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
    step = "the engine's loader put it elsewhere, or it was written by someone else"
    for cause in diagnose(others, records):
        findings.append(Finding("READBACK", cause.where, f"{engine}: {cause.what}", step, cause.names))
    return Comparison(
        engine=engine,
        tensors=len(records),
        compared_bytes=sum(records[name].nbytes for name in served.lanes),
        total_bytes=sum(record.nbytes for record in records.values()),
        mismatched=tuple(wrong),
        not_compared=served.not_compared,
        findings=findings,
    )


def _dtypes(summary: Summary) -> tuple[str, dict[str, str]]:
    """The dtype of most tensors, and those of the others by name: the engine takes the bits as they were sent."""
    counted = Counter(record.dtype for record in summary.records.values())
    usual = counted.most_common(1)[0][0] if counted else ""
    return usual, {n: record.dtype for n, record in summary.records.items() if record.dtype != usual}


def _put_together(answers: Sequence[Answer], summary: Summary) -> Served:
    if not answers:
        return Served({}, dict.fromkeys(summary.records, "no rank of the engine answered"))
    absent = sorted(set(range(answers[0].world)) - {answer.rank for answer in answers})
    if absent:
        why = f"ranks {', '.join(map(str, absent))} of the engine did not answer"
        return Served({}, dict.fromkeys(summary.records, why))
    not_compared: dict[str, str] = {}
    held: dict[str, list[Held]] = defaultdict(list)
    for answer in answers:
        not_compared |= answer.derived | answer.untold
        for name, copies in answer.tensors.items():
            held[name] += copies
    for name in held.keys() - summary.records.keys():
        not_compared[name] = "the engine serves it, and the stream did not carry it"
    lanes: dict[str, Lanes] = {}
    for name, record in summary.records.items():
        if name in not_compared:
            continue
        if not held[name]:
            not_compared[name] = "no rank of the engine tells where it lies"
            continue
        wholes = _wholes(held[name], record)
        if isinstance(wholes, str):
            not_compared[name] = wholes
        else:
            # One replica that differs is enough to serve a wrong token.
            lanes[name] = next((whole for whole in wholes if whole != record.lanes), record.lanes)
    return Served(lanes, not_compared)


def _wholes(parts: list[Held], record: Record) -> set[Lanes] | str:
    """The whole tensor's lanes from the parts that ranks hold, or why there are none.

    Several, if ranks that hold the same part hold different bits of it: one for each of the odd ones out.
    """
    if other := next((part.dtype for part in parts if part.dtype != record.dtype), None):
        return f"the engine answered in {other}, the stream has {record.dtype}"
    if lossy := sum(part.lossy for part in parts):
        return f"{lossy} elements are held with other values than {record.dtype} has"
    replicas: dict[tuple[tuple[int, ...], ...], set[Lanes]] = defaultdict(set)
    for part in parts:
        replicas[tuple(sorted(part.boxes))].add(part.lanes)
    report = Coverage(tuple(_box(box) for boxes in replicas for box in boxes)).check(record.shape)
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
