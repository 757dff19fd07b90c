"""What an engine serves of a summary: layers first, then the tensors of those that differ, put together from all ranks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TypeVar

import msgspec

from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.schema import Schema
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.answer import Answer, Layers, Stages
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.layer_check import check_layers
from bridge_plugins.engines.sglang.sent import Sent
from bridge_plugins.engines.sglang.told import TARGET, Told
from bridge_plugins.engines.sglang.whole import Whole
from bridge_plugins.errors import EngineError

Reply = TypeVar("Reply", Layers, Answer)

STAGE_SECONDS = 60.0  #: how long a pipeline stage may take to come to a request


@dataclass(frozen=True)
class Served:
    """What an engine serves of a summary, in HF terms. A tensor that is in neither `wrong` nor `not_compared` is served as
    it was sent, by every copy.

    Attributes:
        wrong: what is served of the tensors whose bits are others than were sent, by HF name.
        not_compared: what could not be told, and why; by HF name, or by the engine's own path for tensors that it
            computes from others.
        roles: HF name → the draft that holds other bits than were sent; of a name that isn't there, the target does.
        compared, served: bytes of the engine's memory, of all ranks: in some HF tensor, and in all.
    """

    wrong: dict[str, Whole]
    not_compared: dict[str, str]
    roles: dict[str, str] = field(default_factory=dict)
    compared: int = 0
    served: int = 0


def read_back(engine: Engine, summary: Summary) -> Served:
    """Ask every rank of `engine` what it holds of each layer of `summary`; of layers that differ, of each tensor.

    Raises `EngineError` if the engine can't answer.
    """
    sent = _sent(summary.columns.schema)
    answers = _ask(engine, "layers", Layers, dtype=sent.usual, dtypes=sent.others)
    if not answers:
        return Served({}, dict.fromkeys(summary.records, "no rank of the engine answered"))
    worlds = _worlds(answers)
    if why := next(filter(None, map(_absent, worlds)), ""):
        return Served({}, dict.fromkeys(summary.records, why))
    layers = _open_layers(worlds, summary)
    open_records = {
        name: record
        for name, record in (summary.records.items() if layers != [] else ())
        if layers is None or place_of(name).layer in layers
    }
    told = Told()
    if layers != [] or any(answer.untold or answer.derived for answer in answers):
        second = _ask(engine, "records", Answer, layers=layers, dtype=sent.usual, dtypes=sent.others)
        if len(second) < len(answers):
            told.not_compared |= dict.fromkeys(
                open_records, "a rank of the engine did not answer the second time"
            )
        else:
            for several in _worlds(second):
                told.add(several, open_records)
            told.nowhere(open_records)
    if silent := _silent_drafts(answers):
        told.not_compared["draft"] = silent
    return Served(
        # A tensor that one world of several can't tell isn't compared.
        {name: whole for name, whole in told.wrong.items() if name not in told.not_compared},
        told.not_compared,
        told.roles,
        sum(answer.compared for answer in answers),
        sum(answer.served for answer in answers),
    )


@lru_cache(maxsize=8)
def _sent(schema: Schema) -> Sent:
    return Sent.of(dict(zip(schema.names, schema.dtypes, strict=True)))


def _open_layers(worlds: Sequence[Sequence[Layers]], summary: Summary) -> list[str] | None:
    """The layers that digests alone don't prove, of the summary or beside it; None if they say nothing."""
    checked = [(world[0].role, check_layers(world, summary)) for world in worlds]
    in_drafts = frozenset[str]().union(*(each.proved for role, each in checked if each and role != TARGET))
    found: set[str] = set()
    for role, each in checked:
        if each is None:
            return None
        found |= each.differing
        if role == TARGET:
            found |= {layer.name for layer in summary.layers} - each.proved - in_drafts
    return sorted(found)


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
    told = {answer.rank for answer in answers if answer.role == TARGET}
    return sorted(set(range(answers[0].world)) - told)


def _absent(answers: Sequence[Layers]) -> str:
    if answers[0].role == TARGET and (absent := _missing(answers)):
        return f"ranks {', '.join(map(str, absent))} of the engine did not answer"
    return ""


def _silent_drafts(answers: Sequence[Layers]) -> str:
    """Drafts that nobody asked: an older server's, and those of a pipeline stage that isn't the first."""
    there = sum(answer.drafts for answer in answers if answer.role == TARGET)
    silent = there - sum(answer.role != TARGET for answer in answers)
    return f"{silent} of {there} draft models beside the target did not answer" if silent > 0 else ""


def _worlds(answers: Sequence[Reply]) -> list[list[Reply]]:
    """Answers by model: behind one server there may be several copies (``--dp-size``), and drafts beside them."""
    worlds: list[list[Reply]] = []
    for answer in answers:
        same = (world for world in worlds if world[0].role == answer.role)
        home = next((world for world in same if all(answer.rank != other.rank for other in world)), None)
        if home is None:
            worlds.append([answer])
        else:
            home.append(answer)
    return worlds
