"""A Hugging Face model of which only the description is there: Megatron Bridge exports by its names and shapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bridge_plugins.errors import UsageError
from bridge_plugins.layout.sources import Source, read_sources

if TYPE_CHECKING:
    from torch import Tensor

TENSORS = "tensors.json"


def describe(source: Path, folder: Path) -> None:
    """Write the names, shapes and dtypes of an HF folder's tensors into `folder`."""
    (folder / TENSORS).write_bytes(msgspec.json.encode(read_sources(source)))


def read(folder: Path) -> list[Source]:
    """The tensors that `folder` describes, or else those that lie there. Raises `UsageError` if neither can be read."""
    file = folder / TENSORS
    if not file.is_file():
        return read_sources(folder)
    try:
        return msgspec.json.decode(file.read_bytes(), type=list[Source])
    except msgspec.DecodeError as error:
        raise UsageError(f"{file} is no list of tensors: {error}") from error


def as_described(bridge: Any, folder: Path, sources: Iterable[Source]) -> None:
    """Let `bridge`, made from `folder`, take names and shapes from `sources`, if they aren't there themselves."""
    if (folder / TENSORS).is_file():
        bridge.hf_pretrained = _without_weights(bridge.hf_pretrained, sources)


def as_in_source(
    stream: Iterable[tuple[str, Tensor]], sources: Iterable[Source]
) -> Iterator[tuple[str, Tensor]]:
    """The items of `stream`, each in the dtype of the source where that loses nothing: Megatron holds some of them wider."""
    import torch

    dtypes = {source.name: getattr(torch, source.dtype, None) for source in sources}
    for name, tensor in stream:
        narrow = tensor.to(dtypes.get(name) or tensor.dtype)
        same = narrow.dtype == tensor.dtype or torch.equal(narrow.to(tensor.dtype), tensor)
        yield name, narrow if same else tensor


def main_dtype(sources: Iterable[Source]) -> str:
    """The dtype of most elements, as torch spells it."""
    elements: Counter[str] = Counter()
    for source in sources:
        elements[source.dtype] += math.prod(source.shape)
    return elements.most_common(1)[0][0]


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
