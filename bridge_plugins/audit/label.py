"""A version's label, which comes from outside: a number that can be counted with, or any other text."""

from __future__ import annotations

import hashlib
import re

_NUMBER = re.compile(
    r"[0-9]{1,18}"
)  # what a step counter has; no superscripts, and nothing that takes long to read


def number(version: str) -> int | None:
    """The number that a label is; None if it is none."""
    return int(version) if _NUMBER.fullmatch(version) else None


def spelt(version: str) -> str:
    """A label as it stands in the name of a file: it names no folder, is no longer than a name may be, and its own."""
    counted = number(version)
    if counted is not None:
        return f"{counted:06d}"
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", version)[:80]
    if plain == version and version:
        return plain
    return f"{plain}-{hashlib.blake2b(version.encode(errors='replace'), digest_size=4).hexdigest()}"
