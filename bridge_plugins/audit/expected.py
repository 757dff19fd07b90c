"""What a stream should hold: names, shapes and dtypes, from the best source that there is."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bridge_plugins.audit.record import Record

if TYPE_CHECKING:
    from torch import Tensor

    from bridge_plugins.audit.summary import Summary
    from bridge_plugins.layout.sources import Source


@dataclass(frozen=True)
class Expected:
    """Expected tensors by HF name, and where they were read.

    Attributes:
        origin: the source, as a summary's header says it.
        records: fingerprints of the tensors, if they were taken.
        tied: the output layer is the embedding: one of the two names may be absent.
        layers: decoder layers; layers beyond them are multi-token prediction (MTP). 0 if that isn't known.
        dtypes: whether the dtypes are the model's own; a config doesn't know them.
        tensor: gives a tensor by its HF name, or None; read where a wrong one is to be explained.
    """

    origin: str
    sources: Mapping[str, Source]
    records: Mapping[str, Record] = field(default_factory=dict)
    tied: bool = False
    layers: int = 0
    dtypes: bool = True
    tensor: Callable[[str], Tensor | None] | None = None

    @classmethod
    def from_folder(cls, folder: str | Path, *, fingerprints: bool = True) -> Expected:
        """Read an HF folder over all cores, a few megabytes at a time; without `fingerprints` the headers alone.

        Where there is an index, the files that it names are the model, as for Hugging Face's own loader: others may lie
        there, such as the same weights in their maker's format.

        Without them the rule HASH has nothing to judge by: two layers exchanged go unseen on the trainer's side.

        Raises `UsageError` for a folder that holds no safetensors files, or a damaged one.
        """
        from bridge_plugins.audit.sources.hf_folder import HfFolder
        from bridge_plugins.layout.sources import Source
        from bridge_plugins.stored.folder import read_folder

        path = Path(folder)
        whole = HfFolder.read(path) if fingerprints else None
        tensors = whole.tensors if whole else read_folder(path)
        sources = {name: Source(name, stored.shape, stored.dtype) for name, stored in sorted(tensors.items())}
        records = whole.summary().records if whole else {}
        tied, layers = _of_config_file(path / "config.json")
        tensor = _reader(path) if fingerprints else None
        return cls(str(folder), sources, records, tied, layers, tensor=tensor)

    @classmethod
    def from_config(cls, config: Any, name: str) -> Expected:
        """Names and shapes that transformers' model of this config has, built on the meta device.

        Raises `UsageError` for a config that transformers can't build a model of.
        """
        from bridge_plugins.layout.sources import Source
        from bridge_plugins.names.preflight.source import from_config

        made = from_config(config, name)
        sources = {
            key: Source(key, shape, "")
            for key, shape in made.tensors.items()
            if shape is not None and not made.is_optional(key)
        }
        tied, layers = _of_config(config.to_dict())
        return cls(made.expected_from, sources, {}, tied, layers, dtypes=False)

    @classmethod
    def from_summary(cls, summary: Summary) -> Expected:
        """The names, shapes and dtypes of an earlier version. Its bits are no expectation: they may have moved."""
        from bridge_plugins.layout.sources import Source

        sources = {name: Source(name, record.shape, record.dtype) for name, record in summary.records.items()}
        return cls(f"an earlier summary (version {summary.header.version})", sources)


def _reader(folder: Path) -> Callable[[str], Tensor | None]:
    from bridge_plugins.audit.sources.hf_folder import HfFolder

    @cache
    def opened() -> HfFolder:
        return HfFolder.read(folder)

    return lambda name: opened().tensor(name) if opened().has(name) else None


def _of_config_file(path: Path) -> tuple[bool, int]:
    try:
        config = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False, 0
    return _of_config(config) if isinstance(config, dict) else (False, 0)


def _of_config(config: dict[str, Any]) -> tuple[bool, int]:
    text = config.get("text_config") or {}
    tied = bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False)))
    layers = config.get("num_hidden_layers") or text.get("num_hidden_layers") or 0
    return tied, int(layers)
