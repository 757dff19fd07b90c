"""What a stream should hold: names, shapes and dtypes of the checkpoint that the trainer was loaded from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors import safe_open

from bridge_plugins.audit.record import Record
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.layout.sources import Source, read_sources


@dataclass(frozen=True)
class Expected:
    """Expected tensors by HF name, and where they were read. `records` holds their fingerprints, if they were taken."""

    origin: str
    sources: Mapping[str, Source]
    records: Mapping[str, Record] = field(default_factory=dict)

    @classmethod
    def from_folder(cls, folder: str | Path, *, fingerprints: bool = True) -> Expected:
        """Read an HF folder: every tensor, one at a time; without `fingerprints` the headers alone.

        Without them the rule HASH has nothing to judge by: two layers exchanged go unseen on the trainer's side.

        Raises `UsageError` for a folder that holds no safetensors files, or a damaged one.
        """
        sources = {source.name: source for source in read_sources(folder)}
        records = {}
        if fingerprints:
            for file in sorted(Path(folder).glob("*.safetensors")):
                with safe_open(file, framework="pt") as tensors:
                    for name in tensors.keys():  # noqa: SIM118 (safe_open is no mapping)
                        tensor = tensors.get_tensor(name)
                        taken = fingerprint(tensor)
                        records[name] = Record.of(name, tuple(tensor.shape), tensor.nbytes, taken)
        return cls(str(folder), sources, records)
