"""A model's records rolled up by layer, with a header that says what they are records of."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.place import place_of
from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import VERSION, Digest, layer_term
from bridge_plugins.fingerprint.rollup import roll_up, tensor_key
from bridge_plugins.whole_file import write_json

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


class Summary(msgspec.Struct, frozen=True):
    """A version of a model: header, layers in model order, every tensor's record by HF name, and what was found.

    A rank that yields the same weights as another leaves its layers and no records (`brief`).
    """

    header: Header
    digest: str
    layers: list[LayerSummary]
    records: dict[str, Record]
    findings: list[Finding] = []

    def brief(self) -> Summary:
        """The same without records: some kilobytes, whatever the model's size."""
        return msgspec.structs.replace(self, records={})

    def write(self, path: Path) -> None:
        """Write as JSON, atomically: a reader sees the whole file or the one before."""
        write_json(self, path)


def summarize(header: Header, records: Iterable[Record]) -> Summary:
    """Roll records up: tensors to layers, layers to the model."""
    by_name = {record.name: record for record in records}
    grouped: dict[str, list[Record]] = {}
    for name, record in by_name.items():
        grouped.setdefault(place_of(name).layer, []).append(record)
    grouped = dict(sorted(grouped.items(), key=lambda layer: place_of(layer[1][0].name).sort_key))
    digests = {layer: _digest(members) for layer, members in grouped.items()}
    total = sum((layer_term(layer, digest) for layer, digest in digests.items()), Digest())
    layers = [_layer(layer, members, digests[layer]) for layer, members in grouped.items()]
    return Summary(header, str(total), layers, by_name)


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


def _digest(members: list[Record]) -> Digest:
    keys = [tensor_key(place_of(record.name).inside, record.dtype, record.shape) for record in members]
    return roll_up(keys, [record.lanes for record in members])


def _layer(name: str, members: list[Record], digest: Digest) -> LayerSummary:
    return LayerSummary(
        name=name,
        tensors=len(members),
        elements=sum([record.elements for record in members]),
        nbytes=sum([record.nbytes for record in members]),
        norm=sum([record.norm**2 for record in members]) ** 0.5,
        absmax=max([record.absmax for record in members]),
        nonfinite=sum([record.nonfinite for record in members]),
        digest=str(digest),
    )
