"""A Hugging Face folder: its index, and the headers of its safetensors files, checked against each other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge_plugins.audit.sources.source import Progress
from bridge_plugins.audit.sources.stored import StoredTensor, read_header
from bridge_plugins.audit.summary import Header, Summary, summarize
from bridge_plugins.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

_NUMBERED = re.compile(r"^(.+)-(\d+)-of-(\d+)\.safetensors$")


@dataclass(frozen=True)
class HfFolder:
    """The tensors of a checkpoint by name, in the order in which they lie on disk."""

    path: Path
    tensors: Mapping[str, StoredTensor]

    @classmethod
    def read(cls, path: Path) -> HfFolder:
        """Read index and headers. Raises `UsageError` if they don't make one whole checkpoint."""
        listed = _index(path)
        files = sorted(path.glob("*.safetensors"))
        if listed:
            # Names out of a file are compared with what lies in the folder, and never opened.
            known = {file.name for file in files}
            if absent := sorted(set(listed.values()) - known):
                raise UsageError(
                    f"{path}: its index names {_some(absent)}, which {'are' if len(absent) > 1 else 'is'} not there; "
                    "fetch the folder again"
                )
            files = [file for file in files if file.name in set(listed.values())]
        else:
            _all_numbers(path, files)
        tensors: dict[str, StoredTensor] = {}
        for file in files:
            for tensor in read_header(file):
                if other := tensors.get(tensor.name):
                    raise UsageError(
                        f"{path}: {tensor.name} is in {other.file.name} and in {file.name}; keep one"
                    )
                tensors[tensor.name] = tensor
        if listed and (odd := sorted(listed.keys() ^ tensors.keys())):
            where = "the index but in no file" if odd[0] in listed else "a file but not in the index"
            raise UsageError(
                f"{path}: {odd[0]} is in {where} ({len(odd)} such names): is it another model's index?"
            )
        return cls(path, tensors)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def nbytes(self) -> int:
        """Of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def summary(self, progress: Progress = lambda _: None) -> Summary:
        """Read every tensor once. Raises `UsageError` for a file that can't be read."""
        from bridge_plugins.audit.sources.reading import read_records  # numba takes a while to import

        header = Header(model=self.path.resolve().name, topology="", version="", stage="hf")
        return summarize(header, read_records(list(self.tensors.values()), progress))

    def has(self, name: str) -> bool:
        """Whether the checkpoint has the tensor."""
        return name in self.tensors

    def tensor(self, name: str) -> Tensor:
        """The tensor, mapped from its file."""
        from bridge_plugins.audit.sources import at_hand  # torch, where the tensors themselves are asked for

        return at_hand.load(self.tensors[name])

    def pieces(self, name: str) -> Iterator[Tensor]:
        """The tensor's elements, mapped piece by piece."""
        from bridge_plugins.audit.sources import at_hand

        return at_hand.pieces(self.tensors[name])


def _index(path: Path) -> dict[str, str]:
    file = path / "model.safetensors.index.json"
    if not file.is_file():
        return {}
    try:
        listed = json.loads(file.read_bytes())["weight_map"]
        if not listed or not all(isinstance(name, str) for name in listed.values()):
            raise TypeError("its weight_map is no map of tensors to files")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{file} is no index: {type(error).__name__}: {error}") from error
    return dict(listed)


def _all_numbers(path: Path, files: list[Path]) -> None:
    """Without an index, files that count themselves must all be there."""
    counted = [match for file in files if (match := _NUMBERED.match(file.name))]
    for stem, total in {(match[1], match[3]) for match in counted}:
        have = {int(match[2]) for match in counted if (match[1], match[3]) == (stem, total)}
        if absent := sorted(set(range(1, int(total) + 1)) - have):
            name = f"{stem}-{absent[0]:0{len(total)}}-of-{total}.safetensors"
            raise UsageError(
                f"{path}: {name} is not there ({len(absent)} such files); fetch the folder again"
            )


def _some(names: list[str]) -> str:
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
