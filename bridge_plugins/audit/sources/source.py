"""What every source gives: a summary, and the tensors themselves where they are at hand."""

from __future__ import annotations

from collections.abc import Callable
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

    def tensor(self, name: str) -> Tensor | None:
        """A tensor by HF name, read-only; None if it isn't at hand."""
