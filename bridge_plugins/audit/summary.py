"""A model's records rolled up by layer, with a header that says what they are records of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import VERSION
from bridge_plugins.whole_file import write_json

if TYPE_CHECKING:
    from bridge_plugins.audit.columns import Columns  # which needs numpy; a file is read without it

SCHEMA = 2  #: 2 added what follows `fingerprint` in the header, and the findings; 1 is read as well


class Header(msgspec.Struct, frozen=True):
    """What a summary is a summary of.

    Attributes:
        stage: ``megatron_local`` (what a rank holds), ``hf`` (what the bridge yields), ``wire`` (what is handed to
            the transport) or ``save`` (what was written to disk).
        expected: which source gave the expected names; empty if there was none.
        world: ranks of the run; 0 if that isn't known.
        unversioned: the version is the ordinal of an export, for want of a real one.
        partial: why this is not the whole model; empty if it is.
        manifest: digest of (name, dtype, shape, bytes) of every tensor in the order in which they came.
        seconds: what the audit cost the stream.
        merged: how many ranks' files this was merged from; 0 if it is one rank's own.
    """

    model: str
    topology: str
    version: str
    stage: str = "hf"
    rank: int = 0
    expected: str = ""
    patches: dict[str, str] = {}
    packages: dict[str, str] = {}
    schema: int = SCHEMA
    fingerprint: int = VERSION
    world: int = 0
    unversioned: bool = False
    partial: str = ""
    manifest: str = ""
    seconds: float = 0.0
    merged: int = 0


class LayerSummary(msgspec.Struct, frozen=True):
    """One layer: its tensors rolled up. The digest is linear (see `fingerprint.rollup`), `norm` a root of a sum."""

    name: str
    tensors: int
    elements: int
    nbytes: int
    norm: float
    absmax: float
    nonfinite: int
    digest: str


class Summary(msgspec.Struct, frozen=True, dict=True):
    """A version of a model: header, layers in model order, every tensor's record by HF name, and what was found.

    A rank that yields the same weights as another leaves its layers and no records (`brief`).
    """

    header: Header
    digest: str
    layers: list[LayerSummary]
    records: dict[str, Record]
    findings: list[Finding] = []

    @cached_property
    def columns(self) -> Columns:
        """The records as arrays."""
        from bridge_plugins.audit.columns import Columns

        return Columns.of(self.records.values())

    def judged(self, findings: list[Finding]) -> Summary:
        """The same with findings."""
        return msgspec.structs.replace(self, findings=findings)._with(self.columns)

    def _with(self, columns: Columns) -> Summary:
        self.__dict__["columns"] = columns  # where the property finds it, and need not make it anew
        return self

    def brief(self) -> Summary:
        """The same without records: some kilobytes, whatever the model's size."""
        return msgspec.structs.replace(self, records={})

    def write(self, path: Path) -> None:
        """Write as JSON, atomically: a reader sees the whole file or the one before."""
        write_json(self, path)


def summarize(header: Header, records: Iterable[Record]) -> Summary:
    """Roll records up: tensors to layers, layers to the model."""
    from bridge_plugins.audit.columns import Columns

    by_name = {record.name: record for record in records}
    return _rolled_up(header, Columns.of(by_name.values()), by_name)


def summarize_columns(header: Header, columns: Columns) -> Summary:
    """The same of what a stream left. Of a name that came more than once the last counts."""
    records = columns.records()
    return (
        summarize(header, records.values())
        if columns.schema.repeated
        else _rolled_up(header, columns, records)
    )


def _rolled_up(header: Header, columns: Columns, records: dict[str, Record]) -> Summary:
    from bridge_plugins.audit.roll_up import roll_up  # needs numpy; a file is read without it

    layers, digest = roll_up(columns)
    return Summary(header, str(digest), layers, records)._with(columns)


@lru_cache(1)
def package_versions() -> dict[str, str]:
    """The versions of the packages that a stream depends on, for a header; those that are installed."""
    from importlib import metadata  # takes longer to import than a summary to read

    found = {}
    for package in (
        "megatron-bridge-plugins",
        "megatron-bridge",
        "megatron-core",
        "transformers",
        "torch",
        "sglang",
    ):
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
