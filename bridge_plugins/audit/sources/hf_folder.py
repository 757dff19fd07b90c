"""A Hugging Face folder as a source: every tensor is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bridge_plugins.audit.sources.source import Progress
from bridge_plugins.audit.summary import Header, Summary, summarize
from bridge_plugins.errors import UsageError
from bridge_plugins.fingerprint.formats import has_fingerprint
from bridge_plugins.stored.folder import read_folder
from bridge_plugins.stored.header import StoredTensor

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class HfFolder:
    """The tensors of a checkpoint by name, in the order in which they lie on disk."""

    path: Path
    tensors: Mapping[str, StoredTensor]

    @classmethod
    def read(cls, path: Path) -> HfFolder:
        """Read index and headers.

        Raises `UsageError` if they don't make one whole checkpoint, or for a dtype that has no fingerprint.
        """
        tensors = read_folder(path)
        for tensor in tensors.values():
            if not has_fingerprint(tensor.dtype):
                raise UsageError(f"{tensor.file}: {tensor.name} is {tensor.dtype}, which has no fingerprint")
        return cls(path, tensors)

    def __str__(self) -> str:
        return str(self.path)

    @property
    def nbytes(self) -> int:
        """Of all tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())

    def summary(self, progress: Progress = lambda _: None) -> Summary:
        """Read every tensor once. Raises `UsageError` for a file that can't be read."""
        # What reads, which headers need nothing of.
        from bridge_plugins.audit.sources.reading import read_records

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
