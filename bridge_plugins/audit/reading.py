"""Summaries that were written: a file, or the folder that all ranks of a run wrote to."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import msgspec

from bridge_plugins.audit.decoding import decode, schema_of
from bridge_plugins.audit.label import number
from bridge_plugins.audit.summary import SCHEMA, Header, Summary
from bridge_plugins.errors import UsageError

#: Which stage stands for a version, where a folder has several.
STAGES = ("hf", "wire", "megatron_local", "save")


class _Headed(msgspec.Struct, frozen=True):
    header: Header


def read_summary(path: Path) -> Summary:
    """Read what `Summary.write` wrote, or a folder of such files of several ranks, merged (see `audit.merge`).

    Raises `UsageError` naming the file if it is damaged or of a newer schema, or a folder that holds none.
    """
    return read_folder(path) if path.is_dir() else _file(path)


def read_folder(folder: Path) -> Summary:
    """The newest version in `folder`, merged from its ranks' files; its findings are those of all its stages.

    Raises `UsageError` for a folder without summaries, and for a damaged file in it.
    """
    from bridge_plugins.audit.merge import once  # the rules, which one file needs none of

    versions = read_versions(folder)
    newest = list(versions.values())[-1]
    found = [finding for summary in newest.values() for finding in summary.findings]
    stage = next(stage for stage in (*STAGES, *newest) if stage in newest)
    return msgspec.structs.replace(newest[stage], findings=once(found))


def read_versions(folder: Path) -> dict[str, dict[str, Summary]]:
    """Every version in `folder`, oldest first: its summaries by stage, each merged from its ranks' files."""
    from bridge_plugins.audit.merge import merge, unsent

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
        version: {stage: merge(map(_file, paths)) for stage, paths in files[version].items()}
        for version in order
    }
    for stages in merged.values():
        if "hf" in stages and "wire" in stages:
            wire = stages["wire"]
            findings = [*wire.findings, *unsent(stages["hf"], wire)]
            stages["wire"] = msgspec.structs.replace(wire, findings=findings)
    return merged


def _file(path: Path) -> Summary:
    return decode(path, Summary, SCHEMA, "summary")


def _header(path: Path) -> Header | None:
    """The header of a summary; None for a JSON file of another kind. A newer summary is none: it is refused."""
    try:
        if schema_of(path.read_bytes()) is None:
            return None
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no summary: {error}") from error
    return decode(path, _Headed, SCHEMA, "summary").header
