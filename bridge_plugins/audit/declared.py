"""What a user declares about a model's tensors: what no checkpoint says."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Declared:
    """Declarations by HF name, each a shell pattern such as ``model.visual.*``.

    Attributes:
        unmapped: tensors that the trainer has no counterpart of, or that never travel: neither missing nor unexpected.
        frozen: tensors that training must not move; they may be left out of an export.
        dtypes: (pattern, dtype) pairs that stand over the checkpoint's: ``("*.mlp.gate.weight", "float32")``.
    """

    unmapped: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()

    @classmethod
    def from_environment(cls) -> Declared:
        """``BRIDGE_AUDIT_UNMAPPED``, ``BRIDGE_AUDIT_FROZEN`` (patterns), ``BRIDGE_AUDIT_DTYPES`` (pattern=dtype)."""
        pairs = (word.partition("=") for word in _words("BRIDGE_AUDIT_DTYPES"))
        dtypes = tuple((pattern, dtype) for pattern, _, dtype in pairs)
        return cls(_words("BRIDGE_AUDIT_UNMAPPED"), _words("BRIDGE_AUDIT_FROZEN"), dtypes)

    def is_unmapped(self, name: str) -> bool:
        """Whether the name is declared to never travel."""
        return _matches(name, self.unmapped)

    def is_frozen(self, name: str) -> bool:
        """Whether the name is declared to never move."""
        return _matches(name, self.frozen)

    def dtype(self, name: str) -> str:
        """The dtype that is declared for the name; empty if none is. The first pattern that matches counts."""
        if not self.dtypes:
            return ""
        return next((dtype for pattern, dtype in self.dtypes if fnmatchcase(name, pattern)), "")


def _matches(name: str, patterns: Sequence[str]) -> bool:
    # Mostly nothing is declared, and every name is asked for.
    return bool(patterns) and any(fnmatchcase(name, pattern) for pattern in patterns)


def _words(variable: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in os.environ.get(variable, "").split(",") if word.strip())
