"""What the models of an engine tell of a summary's tensors: the target first, then the drafts beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge_plugins.audit.record import Record
from bridge_plugins.engines.sglang.answer import Answer, Held
from bridge_plugins.engines.sglang.whole import Whole, whole_of

TARGET = "target"  #: the role of the model that is served; any other is a draft's


@dataclass
class Told:
    """What the models of an engine tell of the tensors of a summary, one model after the other (see `Served`)."""

    not_compared: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, Whole] = field(default_factory=dict)
    roles: dict[str, str] = field(default_factory=dict)
    _lacking: set[str] = field(default_factory=set)
    _in_drafts: set[str] = field(default_factory=set)

    def add(self, answers: Sequence[Answer], records: dict[str, Record]) -> None:
        """What the ranks of one model tell of the tensors in `records`."""
        role = answers[0].role
        whose = "" if role == TARGET else f"{role}: "
        held: dict[str, list[tuple[int, Held]]] = defaultdict(list)
        reasons: dict[str, str] = {}
        for answer in answers:
            reasons |= answer.derived | answer.untold
            for name, copies in answer.tensors.items():
                held[name] += [(answer.rank, copy) for copy in copies]
        for name in held.keys() - records.keys():
            reasons[name] = "the engine serves it, and the stream did not carry it"
        for name, record in records.items():
            if name in reasons:
                continue
            if not held[name]:
                if role == TARGET:
                    self._lacking.add(name)
                continue
            if role != TARGET:
                self._in_drafts.add(name)
            whole = whole_of(held[name], record)
            if isinstance(whole, str):
                reasons[name] = whole
            elif whole.lanes != record.lanes and name not in self.wrong:
                # One copy that differs is enough to serve a wrong token.
                self.wrong[name] = whole
                if role != TARGET:
                    self.roles[name] = role
        self.not_compared = {name: whose + why for name, why in reasons.items()} | self.not_compared

    def nowhere(self, records: dict[str, Record]) -> None:
        """After all models: what neither the target nor a draft holds."""
        for name in records.keys() & self._lacking - self._in_drafts:
            self.not_compared.setdefault(name, "no rank of the engine tells where it lies")
