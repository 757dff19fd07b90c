"""A Hugging Face model that isn't there: Megatron Bridge imports from it, and gets coded weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
import wrapt

from bridge_plugins.layout.planes import Coded
from bridge_plugins.layout.sources import Source


def load_coded(bridge: Any, chunks: Sequence[Any], sources: Iterable[Source], coded: Coded) -> None:
    """Import `coded` into `chunks` through ``bridge.load_hf_weights``, whose checkpoint has `sources`.

    What carries no code comes as zeros, which are no code. Every rank must call this, as an import.
    """
    importer = copy.copy(bridge)
    importer.hf_pretrained = _pretrained(
        bridge.hf_pretrained, {source.name: source for source in sources}, coded
    )
    importer.load_hf_weights(list(chunks))


def _pretrained(pretrained: Any, sources: Mapping[str, Source], coded: Coded) -> Any:
    """What a bridge takes for its ``hf_pretrained``: `pretrained` in all but the weights.

    Each tensor is made when the bridge asks for it.
    """
    from megatron.bridge.models.hf_pretrained.state import StateDict, StateSource

    class CodedSource(StateSource):  # type: ignore[misc]
        def get_all_keys(self) -> list[str]:
            return sorted(sources)

        def load_tensors(self, keys: list[str]) -> dict[str, torch.Tensor]:
            return {key: coded[key] if key in coded else _zeros(sources[key]) for key in keys}

    class CodedPretrained(wrapt.ObjectProxy[Any]):
        # A proxy passes for the class that it stands for, which the bridge checks.
        state = StateDict(CodedSource())
        model_name_or_path = f"coded weights ({coded.plane.number}, digit {coded.plane.digit})"

    return CodedPretrained(pretrained)


def _zeros(source: Source) -> torch.Tensor:
    return torch.zeros(source.shape, dtype=getattr(torch, source.dtype))
