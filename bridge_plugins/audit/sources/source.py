"""What every source gives: a summary, and the tensors themselves where they are at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from bridge_plugins.audit.summary import Summary

if TYPE_CHECKING:
    from torch import Tensor

Progress = Callable[[int], None]
"""Told how many bytes more were read."""


class Source(Protocol):
    """Something that a model's records can be had from. `str()` is what the user called it."""

    @property
    def nbytes(self) -> int:
        """Bytes that `summary` reads; 0 if it takes no time to speak of."""

    def summary(self, progress: Progress = ...) -> Summary:
        """Read the records. Raises `BridgePluginsError` if that can't be done."""

    def has(self, name: str) -> bool:
        """Whether the tensor of this HF name itself is at hand."""

    def tensor(self, name: str) -> Tensor:
        """A tensor that is at hand, read-only."""

    def pieces(self, name: str) -> Iterator[Tensor]:
        """Its elements in order, flat, some megabytes at a time."""


class RecordsOnly:
    """What a source says that has no tensors at hand."""

    nbytes = 0

    def has(self, name: str) -> bool:  # noqa: ARG002
        return False

    def tensor(self, name: str) -> Tensor:
        raise KeyError(name)

    def pieces(self, name: str) -> Iterator[Tensor]:
        raise KeyError(name)
