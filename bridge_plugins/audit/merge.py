"""One summary out of the files that ranks left in a folder, offline: no rank waited for another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bridge_plugins.audit.decoding import decode, schema_of
from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.grouping import by_layer, count
from bridge_plugins.audit.label import number
from bridge_plugins.audit.names import is_output_layer, plain
from bridge_plugins.audit.record import Record
from bridge_plugins.audit.rules.manifest import Manifest
from bridge_plugins.audit.rules.rule import Context, Witness
from bridge_plugins.audit.rules.unique import Unique
from bridge_plugins.audit.rules.version import Version
from bridge_plugins.audit.summary import SCHEMA, Header, Summary, read_summary, summarize
from bridge_plugins.errors import UsageError

#: Which stage stands for a version, where a folder has several.
STAGES = ("hf", "wire", "megatron_local", "save")


class _Headed(msgspec.Struct, frozen=True):
    header: Header


def read_folder(folder: Path) -> Summary:
    """The newest version in `folder`, merged from its ranks' files; its findings are those of all its stages.

    Raises `UsageError` for a folder without summaries, and for a damaged file in it.
    """
    versions = read_versions(folder)
    newest = list(versions.values())[-1]
    found = [finding for summary in newest.values() for finding in summary.findings]
    stage = next(stage for stage in (*STAGES, *newest) if stage in newest)
    return msgspec.structs.replace(newest[stage], findings=_once(found))


def read_versions(folder: Path) -> dict[str, dict[str, Summary]]:
    """Every version in `folder`, oldest first: its summaries by stage, each merged from its ranks' files."""
    files: dict[str, dict[str, list[Path]]] = defaultdict(lambda: defaultdict(list))
    written: dict[str, int] = {}
    for path in sorted(folder.glob("*.json")):
        header = _header(path) if path.is_file() else None  # a pipe would be waited for
        if header is not None:
            files[header.version][header.stage].append(path)
            written[header.version] = max(written.get(header.version, 0), path.stat().st_mtime_ns)
    if not files:
        raise UsageError(f"no summaries in {folder}: name a folder that an audit wrote to (BRIDGE_AUDIT_DIR)")
    numbers = {version: number(version) for version in files}
    by_number = None not in numbers.values()
    order = sorted(files, key=lambda version: (numbers[version] or 0) if by_number else written[version])
    merged = {
        version: {stage: merge(map(read_summary, paths)) for stage, paths in files[version].items()}
        for version in order
    }
    for stages in merged.values():
        if "hf" in stages and "wire" in stages:
            unsent = list(_unsent(stages["hf"], stages["wire"]))
            wire = stages["wire"]
            stages["wire"] = msgspec.structs.replace(wire, findings=[*wire.findings, *unsent])
    return merged


def _unsent(stream: Summary, wire: Summary) -> Iterable[Finding]:
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
        merged, findings=_once([*found, *_strangers(headers), *_absent(first, headers)])
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


def _header(path: Path) -> Header | None:
    """The header of a summary; None for a JSON file of another kind. A newer summary is none: it is refused."""
    try:
        if schema_of(path.read_bytes()) is None:
            return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no summary: {error}") from error
    return decode(path, _Headed, SCHEMA, "summary").header


def _once(findings: Iterable[Finding]) -> list[Finding]:
    """The same finding of several ranks as one that names them all."""
    ranks: dict[Finding, set[int]] = {}
    for finding in findings:
        ranks.setdefault(msgspec.structs.replace(finding, ranks=()), set()).update(finding.ranks)
    return [msgspec.structs.replace(finding, ranks=tuple(sorted(own))) for finding, own in ranks.items()]
