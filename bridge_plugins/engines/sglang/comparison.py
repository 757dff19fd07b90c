"""Trainer against engine: what differs, and what happened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from bridge_plugins.audit.diagnosis import diagnose
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer
from bridge_plugins.audit.summary import Summary
from bridge_plugins.engines.sglang.readback import Served
from bridge_plugins.engines.sglang.told import TARGET


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


def compare(summary: Summary, engine: str, served: Served, previous: Summary | None) -> Comparison:
    """Hold what `engine` serves against the trainer's `summary`; explain what differs.

    A tensor that still has the bits of `previous` is called stale; else its bits are looked up in `summary`.
    """
    records = summary.records
    wrong = {
        name: msgspec.structs.replace(records[name], lanes=whole.lanes)
        for name, whole in served.wrong.items()
    }
    stale = {
        name
        for name, record in wrong.items()
        if previous and name in previous.records and record.lanes == previous.records[name].lanes
    }
    findings = []
    for role in sorted({served.roles.get(name, TARGET) for name in wrong}, reverse=True):
        who = engine if role == TARGET else f"the {role} model of {engine}"
        mine = [name for name in wrong if served.roles.get(name, TARGET) == role]
        for layer, names in by_layer(stale.intersection(mine)).items():
            assert previous is not None
            these = names[0] if len(names) == 1 else f"{len(names)} tensors ({names[0]}, …)"
            what = f"{who} still serves version {previous.header.version} of {these}"
            step = "the bucket that carried them was not loaded"
            if len(paths := _paths(served, names)) == 1:
                step = f"what was sent did not come into the engine's {paths[0]}"
            findings.append(Finding("READBACK", layer, what, step, names, _ranks(served, names)))
        for cause in diagnose({name: wrong[name] for name in mine if name not in stale}, records):
            step = "the engine's loader put it elsewhere, or it was written by someone else"
            if paths := _paths(served, cause.names):
                more = f" and {len(paths) - 1} more" if paths[1:] else ""
                step = f"it lies in the engine's {paths[0]}{more}"
            ranks = _ranks(served, cause.names)
            findings.append(
                Finding("READBACK", cause.where, f"{who}: {cause.what}", step, cause.names, ranks)
            )
    total_bytes = sum(layer.nbytes for layer in summary.layers)
    return Comparison(
        engine=engine,
        tensors=len(records),
        compared_bytes=total_bytes
        - sum(records[name].nbytes for name in records.keys() & served.not_compared.keys()),
        total_bytes=total_bytes,
        mismatched=tuple(wrong),
        not_compared=served.not_compared,
        findings=findings,
        engine_compared=served.compared,
        engine_served=served.served,
    )


def _ranks(served: Served, names: Sequence[str]) -> tuple[int, ...]:
    """The ranks that are to blame for all of `names`; empty if that differs from name to name, or isn't known."""
    blamed = {served.wrong[name].ranks for name in names}
    return blamed.pop() if len(blamed) == 1 else ()


def _paths(served: Served, names: Sequence[str]) -> list[str]:
    """The engine's own tensors in which what is wrong of `names` lies, as far as that is known."""
    return sorted({path for name in names for path in served.wrong[name].paths})
