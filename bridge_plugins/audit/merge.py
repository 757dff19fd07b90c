"""One summary out of those of several ranks, offline: no rank waited for another."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.names import is_output_layer, plain
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules.manifest import Manifest
from bridge_plugins.audit.rules.rule import Context, Witness
from bridge_plugins.audit.rules.unique import Unique
from bridge_plugins.audit.rules.version import Version
from bridge_plugins.audit.summary import Header, Summary, summarize


def unsent(stream: Summary, wire: Summary) -> Iterable[Finding]:
    """What the bridge yielded and no rank handed to a transport: no single rank could have said so."""
    if stream.header.partial:
        return
    sent = {plain(name) for name in wire.records}
    left = {plain(name) for name in stream.records} - sent
    for layer, names in by_layer(name for name in left if not is_output_layer(name)).items():
        yield Finding(
            "SET", layer, f"{count(names, 'was', 'were')} yielded and handed to no transport by any rank",
            "right for frozen towers and adapters that travel on their own; else the engine keeps what it had", names,
            severity="warning", expected="sent", found="not sent",
        )  # fmt: skip


def merge(summaries: Iterable[Summary]) -> Summary:
    """One summary of one version and stage from those of several ranks.

    Records are united: a name that two ranks recorded with different bits is a finding. On stage ``hf`` every rank saw
    the whole model, so that ranks which differ are found too.
    """
    records: dict[str, Record] = {}
    conflicting: dict[str, None] = {}
    witnesses: list[Witness] = []
    found: list[Finding] = []
    headers: list[Header] = []
    for summary in summaries:
        headers.append(summary.header)
        witnesses.append(Witness.of(summary, summary.header.rank))
        found += summary.findings
        for name, record in summary.records.items():
            other = records.setdefault(name, record)
            if (other.lanes, other.shape, other.dtype) != (record.lanes, record.shape, record.dtype):
                conflicting[name] = None
    witnesses.sort(key=lambda witness: witness.rank)
    first = min(headers, key=lambda header: header.rank)
    whole = first.stage in ("hf", "save") and not first.partial
    context = Context(
        conflicting=tuple(conflicting) if first.stage == "wire" else (),
        witnesses=tuple(witnesses) if whole else (),
    )
    merged = summarize(_merged(first, headers), records.values())
    for rule in (Unique(), Manifest(), Version()):
        found += rule.check(merged, context)
    return msgspec.structs.replace(
        merged, findings=once([*found, *_strangers(headers), *_absent(first, headers)])
    )


def _merged(first: Header, headers: list[Header]) -> Header:
    partial = next((header.partial for header in headers if not header.partial), first.partial)
    seconds = max(header.seconds for header in headers)
    return msgspec.structs.replace(first, merged=len(headers), seconds=seconds, partial=partial)


def _strangers(headers: list[Header]) -> Iterable[Finding]:
    """Files of two runs that wrote into one folder."""
    worlds = sorted({header.world for header in headers if header.world})
    if len(worlds) > 1:
        said = " and ".join(f"of {world} ranks" for world in worlds)
        yield Finding(
            "MANIFEST", "model", f"files of several runs lie in one folder: {said}",
            "give each run a folder of its own: BRIDGE_AUDIT_DIR", expected="one run", found=f"{len(worlds)} runs",
        )  # fmt: skip


def _absent(first: Header, headers: list[Header]) -> Iterable[Finding]:
    """Ranks that left no file, on the stages that every rank has."""
    if first.stage not in ("hf", "save") or not first.world:
        return
    absent = sorted(set(range(first.world)) - {header.rank for header in headers})
    if absent:
        yield Finding(
            "MANIFEST", "model", f"{len(absent)} of {first.world} ranks left no file of version {first.version}",
            "they died, wrote elsewhere, or are still writing", ranks=tuple(absent), severity="warning",
            expected=f"{first.world} files", found=f"{len(headers)} files",
        )  # fmt: skip


def once(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding of several ranks as one that names them all."""
    ranks: dict[Finding, set[int]] = {}
    for finding in findings:
        ranks.setdefault(msgspec.structs.replace(finding, ranks=()), set()).update(finding.ranks)
    return [msgspec.structs.replace(finding, ranks=tuple(sorted(own))) for finding, own in ranks.items()]
