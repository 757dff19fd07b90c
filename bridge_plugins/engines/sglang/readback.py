"""Trainer against engine: layers first, then the tensors of those that differ, put together from all of its ranks."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.answer import Answer, Held, Layers, Stages
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.layer_check import differing_layers
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.engines.sglang.whole import Lanes, Whole, whole_of
from bridge_plugins.errors import EngineError

Reply = TypeVar("Reply", Layers, Answer)

STAGE_SECONDS = 60.0  #: how long a pipeline stage may take to come to a request


@dataclass(frozen=True)
class Served:
    """What an engine serves, in HF terms.

    Attributes:
        lanes: whole-tensor fingerprints by HF name.
        not_compared: what could not be told, and why; by HF name, or by the engine's own path for tensors that it
            computes from others.
        ranks, paths: HF name → the engine's ranks, and its own tensors, that hold other bits than were sent, where that
            can be told.
        compared, served: bytes of the engine's memory, of all ranks: in some HF tensor, and in all.
    """

    lanes: dict[str, Lanes]
    not_compared: dict[str, str]
    ranks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    paths: dict[str, tuple[str, ...]] = field(default_factory=dict)
    compared: int = 0
    served: int = 0


@dataclass(frozen=True)
class Comparison:
    """A trainer's version against one engine. `mismatched` and `not_compared` name tensors.

    `compared_bytes` of `total_bytes` are the stream's, `engine_compared` of `engine_served` of the engine's memory, whose
    rest is padding, or named in `not_compared`.
    """

    engine: str
    tensors: int
    compared_bytes: int
    total_bytes: int
    mismatched: tuple[str, ...]
    not_compared: dict[str, str]
    findings: list[Finding] = field(default_factory=list)
    engine_compared: int = 0
    engine_served: int = 0

    @property
    def consistent(self) -> bool:
        """Every tensor was compared and is equal."""
        return not self.mismatched and not self.not_compared


def read_back(engine: Engine, summary: Summary) -> Served:
    """Ask every rank of `engine` what it holds of each layer of `summary`; of layers that differ, of each tensor.

    Raises `EngineError` if the engine can't answer.
    """
    sent = Sent.of({name: record.dtype for name, record in summary.records.items()})
    answers = _ask(engine, "layers", Layers, dtype=sent.usual, dtypes=sent.others)
    lanes: dict[str, Lanes] = {}
    not_compared: dict[str, str] = {}
    wrong: dict[str, Whole] = {}
    if not answers:
        return Served({}, dict.fromkeys(summary.records, "no rank of the engine answered"))
    worlds = _worlds(answers)
    if why := next(filter(None, map(_absent, worlds)), ""):
        return Served({}, dict.fromkeys(summary.records, why))
    differing: set[str] | None = set()
    for world in worlds:
        found = differing_layers(world, summary)
        differing = None if found is None or differing is None else differing | found
    open_records = {
        name: record
        for name, record in summary.records.items()
        if differing is None or place_of(name).layer in differing
    }
    lanes |= {name: record.lanes for name, record in summary.records.items() if name not in open_records}
    if differing != set() or any(answer.untold or answer.derived for answer in answers):
        asked = None if differing is None else sorted(differing)
        told = _ask(engine, "records", Answer, layers=asked, dtype=sent.usual, dtypes=sent.others)
        for several in _worlds(told) or [[]]:
            _put_together(several, open_records, lanes, not_compared, wrong)
    # A tensor that one world of several can't tell isn't compared.
    kept = {name: whole for name, whole in lanes.items() if name not in not_compared}
    compared, served = sum(each.compared for each in answers), sum(each.served for each in answers)
    ranks = {name: whole.ranks for name, whole in wrong.items()}
    paths = {name: whole.paths for name, whole in wrong.items()}
    return Served(kept, not_compared, ranks, paths, compared, served)


def compare(summary: Summary, engine: str, served: Served, previous: Summary | None) -> Comparison:
    """Hold what `engine` serves against the trainer's `summary`; explain what differs.

    A tensor that still has the bits of `previous` is called stale; else its bits are looked up in `summary`.
    """
    records = summary.records
    wrong = {
        name: msgspec.structs.replace(records[name], lanes=lanes)
        for name, lanes in served.lanes.items()
        if lanes != records[name].lanes
    }
    stale = {
        name
        for name, record in wrong.items()
        if previous and name in previous.records and record.lanes == previous.records[name].lanes
    }
    findings = []
    for layer, names in by_layer(stale).items():
        assert previous is not None
        what = (
            f"{engine} still serves version {previous.header.version} of {len(names)} tensors ({names[0]}, …)"
        )
        step = "the bucket that carried them was not loaded"
        findings.append(Finding("READBACK", layer, what, step, names, _ranks(served, names)))
    others = {name: record for name, record in wrong.items() if name not in stale}
    for cause in diagnose(others, records):
        found = _ranks(served, cause.names)
        step = "the engine's loader put it elsewhere, or it was written by someone else"
        if paths := sorted({path for name in cause.names for path in served.paths.get(name, ())}):
            step = f"it lies in the engine's {paths[0]}" + (
                f" and {len(paths) - 1} more" if paths[1:] else ""
            )
        findings.append(Finding("READBACK", cause.where, f"{engine}: {cause.what}", step, cause.names, found))
    return Comparison(
        engine=engine,
        tensors=len(records),
        compared_bytes=sum(records[name].nbytes for name in served.lanes),
        total_bytes=sum(record.nbytes for record in records.values()),
        mismatched=tuple(wrong),
        not_compared=served.not_compared,
        findings=findings,
        engine_compared=served.compared,
        engine_served=served.served,
    )


def _ask(engine: Engine, action: str, reply: type[Reply], **arguments: object) -> list[Reply]:
    """Ask, and fetch what the ranks of other pipeline stages answer: the server passes on its first stage alone."""
    request = uuid.uuid4().hex
    answers = engine.ask(action, reply, request=request, **arguments)
    missing = _missing(answers) if answers and answers[0].stages > 1 else []
    until = time.monotonic() + STAGE_SECONDS
    while missing and time.monotonic() < until:
        for stages in engine.ask("collect", Stages, of=request, ranks=missing):
            try:
                answers += [msgspec.json.decode(text, type=reply) for text in stages.replies.values()]
            except msgspec.DecodeError as error:
                raise EngineError(
                    f"{engine.url}: a pipeline stage gave a reply of another version of this package: {error}"
                ) from error
        missing = _missing(answers)
    return answers


def _missing(answers: Sequence[Layers | Answer]) -> list[int]:
    return sorted(set(range(answers[0].world)) - {answer.rank for answer in answers})


def _absent(answers: Sequence[Layers]) -> str:
    if absent := _missing(answers):
        return f"ranks {', '.join(map(str, absent))} of the engine did not answer"
    return ""


def _worlds(answers: Sequence[Reply]) -> list[list[Reply]]:
    """Answers by world: behind one server there may be several copies of the model (``--dp-size``)."""
    worlds: list[list[Reply]] = []
    for answer in answers:
        home = next((world for world in worlds if all(answer.rank != other.rank for other in world)), None)
        if home is None:
            worlds.append([answer])
        else:
            home.append(answer)
    return worlds


def _put_together(
    answers: Sequence[Answer],
    records: dict[str, Record],
    lanes: dict[str, Lanes],
    not_compared: dict[str, str],
    wrong: dict[str, Whole],
) -> None:
    """Add to `lanes`, `not_compared` and `wrong` what the ranks of one world tell of the tensors in `records`."""
    if not answers or _missing(answers):
        not_compared |= dict.fromkeys(records, "a rank of the engine did not answer the second time")
        return
    held: dict[str, list[tuple[int, Held]]] = defaultdict(list)
    for answer in answers:
        not_compared |= answer.derived | answer.untold
        for name, copies in answer.tensors.items():
            held[name] += [(answer.rank, copy) for copy in copies]
    for name in held.keys() - records.keys():
        not_compared[name] = "the engine serves it, and the stream did not carry it"
    for name, record in records.items():
        if name in not_compared:
            continue
        if not held[name]:
            not_compared[name] = "no rank of the engine tells where it lies"
            continue
        whole = whole_of(held[name], record)
        if isinstance(whole, str):
            not_compared[name] = whole
        elif lanes.get(name, record.lanes) == record.lanes:
            # One copy that differs is enough to serve a wrong token.
            lanes[name] = whole.lanes
            if whole.lanes != record.lanes:
                wrong[name] = whole


def _ranks(served: Served, names: Sequence[str]) -> tuple[int, ...]:
    """The ranks that are to blame for all of `names`; empty if that differs from name to name, or isn't known."""
    blamed = {served.ranks.get(name, ()) for name in names}
    return blamed.pop() if len(blamed) == 1 else ()
