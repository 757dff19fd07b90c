"""Where a mutation hits: the first export, one after a step, the way to the transport, the engine, two files at rest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache

from bridge_plugins.audit import Finding, WeightAudit
from bridge_plugins.audit.comparison import compare
from bridge_plugins.audit.diagnosis import Cause, diagnose
from bridge_plugins.audit.rules.dtypes import is_wider
from bridge_plugins.engines.sglang.comparison import compare as compare_served
from bridge_plugins.engines.sglang.readback import Served
from bridge_plugins.engines.sglang.whole import Whole
from bridge_plugins.engines.sglang.wire import Bucket
from tests.faults.mutations import Item, Mutation, Truth, truth
from tests.faults.mutations_recording import Recorded

BUCKET = 40  # tensors


@dataclass(frozen=True)
class Judged:
    """What was said, and what should have been: rule → the names that its findings should carry, all of them.

    `causes` are judged by the mutation's pattern; None where there are none to be had.
    """

    truth: Truth
    findings: Sequence[Finding]
    expected: Mapping[str, frozenset[str]]
    causes: Sequence[Cause] | None = None


#: Said where one side alone is at hand: the cause is unknown, or the fault so small that its place is all there is.
UNKNOWN = "unlike every tensor of the reference|like several others of the reference|differs in 4 bytes alone"

#: Rules that may say more of a fault that others name, in their own terms.
BESIDE = frozenset({"COV", "PAIR", "STATS", "DELTA"})


def first_export(recorded: Recorded, mutation: Mutation) -> Judged:
    """Of what was just loaded: every bit is judged."""
    audit = WeightAudit("tiny", expected=recorded.expected)
    _drain(audit.watch(mutation.items))
    summary, findings = audit.finish("1")
    changed = truth(recorded.summary, summary, mutation.items)
    return Judged(changed, findings, {**_structure(recorded, changed, summary.records), "HASH": changed.bits})


def later_export(recorded: Recorded, mutation: Mutation) -> Judged:
    """After a step: names, shapes, dtypes and values that no weight has."""
    audit = copy(_after_one(recorded))
    _drain(audit.watch(mutation.items))
    summary, findings = audit.finish("2", trained=True)
    changed = truth(recorded.summary, summary, mutation.items)
    return Judged(changed, findings, _structure(recorded, changed, summary.records))


@cache
def _after_one(recorded: Recorded) -> WeightAudit:
    audit = WeightAudit("tiny", expected=recorded.expected)
    _drain(audit.watch(recorded.before.items()))
    audit.finish("1", trained=True)
    return audit


def wire(recorded: Recorded, mutation: Mutation) -> Judged:
    """The export is right, what the transport is handed isn't."""
    audit = WeightAudit("tiny", expected=recorded.expected)
    _drain(audit.watch(recorded.tensors.items()))
    items = list(mutation.items)
    bucket_of = {}
    for start in range(0, len(items), BUCKET):
        Bucket(bucket := items[start : start + BUCKET])
        bucket_of.update((name, start) for name, _ in bucket)
    _, findings = audit.finish("1")
    sent = recorded.summary_of(items)
    changed = truth(recorded.summary, sent, items)
    expected = {
        **_structure(recorded, changed, sent.records),
        "UNIQ": changed.conflicting,
        "WIRE": changed.bits,
        "PAIR": _apart(bucket_of),
    }
    return Judged(changed, findings, {**expected, "STATS": frozenset()})


def _apart(bucket_of: Mapping[str, int]) -> frozenset[str]:
    """What SGLang joins with a tensor that another bucket brings: a fault whatever the order came from."""
    partners = {name: name.replace(".q_a_proj.", ".kv_a_proj_with_mqa.") for name in bucket_of}
    return frozenset(n for n, p in partners.items() if p in bucket_of and bucket_of[p] != bucket_of[n])


def at_rest(recorded: Recorded, mutation: Mutation) -> Judged:
    """Two sources with their tensors at hand, as ``bridge-audit diff`` compares them: every cause is looked for."""
    right, found = recorded.summary, recorded.summary_of(mutation.items)
    changed = truth(right, found, mutation.items)
    difference = compare(right, found)
    wrong = {one.name: one.found for one in difference.changed}
    tensors = dict(mutation.items)
    causes = diagnose(
        wrong, right.records, earlier={"version 1": recorded.summary_before.records}, found=tensors.get,
        expected=recorded.tensors.get,
    )  # fmt: skip
    assert (frozenset(difference.missing), frozenset(difference.unexpected)) == (
        changed.missing,
        changed.unexpected,
    )
    assert set(wrong) == changed.changed
    return Judged(changed, [], {}, causes)


def engine(recorded: Recorded, mutation: Mutation) -> Judged:
    """The engine serves it: it holds what it was sent in the trainer's shapes and dtypes, so that bits alone differ."""
    right, served = recorded.summary, recorded.summary_of(mutation.items)
    changed = truth(right, served, mutation.items)
    wrong = {name: Whole(served.records[name].lanes) for name in changed.bits}
    found = compare_served(right, "engine", Served(wrong, {}), recorded.summary_before)
    assert set(found.mismatched) == changed.bits
    return Judged(changed, found.findings, {"READBACK": changed.bits})


def _structure(
    recorded: Recorded, changed: Truth, records: Mapping[str, object]
) -> dict[str, frozenset[str]]:
    before = recorded.summary.records
    lossy = {
        name
        for name in changed.dtypes
        if not is_wider(records[name].dtype, before[name].dtype)  # type: ignore[attr-defined]
    }
    return {
        "SET": changed.missing | changed.unexpected,
        "UNIQ": changed.repeated,
        "SHAPE": changed.shapes,
        "DTYPE": frozenset(lossy),
        "STATS": changed.nonfinite,
    }


def _drain(stream: Iterable[Item]) -> None:
    for _ in stream:
        pass


PLACES: tuple[Callable[[Recorded, Mutation], Judged], ...] = (first_export, later_export, wire, engine)


def complaints(judged: Judged, said: str) -> list[str]:
    """What is wrong with what was said: misses, false alarms, wrong names, wrong causes."""
    import re

    changed = judged.truth
    beside = BESIDE if changed else frozenset[str]()
    counted = [finding for finding in judged.findings if finding.counts]
    named: dict[str, set[str]] = defaultdict(set)
    for finding in counted:
        named[finding.rule] |= set(finding.names)
    wrong = []
    for rule, names in judged.expected.items():
        if missed := names - named[rule]:
            wrong.append(f"missed: {rule} does not name {sorted(missed)[:3]}")
        if rule not in beside and (more := named[rule] - names):
            wrong.append(f"false alarm: {rule} names {sorted(more)[:3]}")
    others = {finding.rule for finding in counted} - judged.expected.keys() - beside
    if others:
        wrong.append(f"false alarm: {[str(f) for f in counted if f.rule in others][:3]}")
    for cause in judged.causes or ():
        if not re.search(said, str(cause)):
            wrong.append(f"wrong diagnosis: {cause}")
    for finding in counted:  # without both tensors at hand a cause may stay unknown, and must not be another
        if finding.rule in ("HASH", "READBACK") and not re.search(f"{said}|{UNKNOWN}", str(finding)):
            wrong.append(f"wrong diagnosis: {finding}")
    if judged.causes is not None:
        explained = sorted(name for cause in judged.causes for name in cause.names)
        if explained != sorted(changed.changed):
            wrong.append(
                f"wrong diagnosis: causes of {explained[:3]}, changed were {sorted(changed.changed)[:3]}"
            )
    return wrong
