"""A Hugging Face model of which only the description is there: Megatron Bridge exports by its names and shapes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bridge_plugins.errors import UsageError
from bridge_plugins.layout.sources import Source, read_sources

TENSORS = "tensors.json"


def describe(source: Path, folder: Path) -> None:
    """Write the names, shapes and dtypes of an HF folder's tensors into `folder`."""
    (folder / TENSORS).write_bytes(msgspec.json.encode(read_sources(source)))


def as_described(bridge: Any, folder: Path) -> None:
    """Let `bridge`, made from `folder`, take names and shapes from there, if its tensors are described and not there.

    Raises `UsageError` for a description that can't be read.
    """
    file = folder / TENSORS
    if not file.is_file():
        return
    try:
        sources = msgspec.json.decode(file.read_bytes(), type=list[Source])
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is no list of tensors: {error}") from error
    bridge.hf_pretrained = _without_weights(bridge.hf_pretrained, sources)


def _without_weights(pretrained: Any, sources: Iterable[Source]) -> Any:
    import torch
    import wrapt
    from megatron.bridge.models.hf_pretrained.state import StateDict, StateSource

    known = {source.name: source for source in sources}

    class Described(StateSource):  # type: ignore[misc]
        def get_all_keys(self) -> list[str]:
            return sorted(known)

        def load_tensors(self, keys: list[str]) -> dict[str, torch.Tensor]:
            # The bridge asks some tensors for their shape: on the meta device there is nothing but that.
            found = [known[key] for key in keys]
            return {
                source.name: torch.empty(source.shape, dtype=getattr(torch, source.dtype), device="meta")
                for source in found
            }

    class DescribedPretrained(wrapt.ObjectProxy[Any]):
        # A proxy passes for the class that it stands for, which the bridge checks.
        state = StateDict(Described())

    return DescribedPretrained(pretrained)
