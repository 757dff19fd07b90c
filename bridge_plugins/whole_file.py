"""Files that are there whole or not at all."""

from __future__ import annotations

import errno
import secrets
from pathlib import Path

import msgspec


def write_json(content: msgspec.Struct, path: Path) -> None:
    """Write as JSON, as `write_bytes` does."""
    write_bytes(msgspec.json.encode(content), path)


def write_bytes(content: bytes, path: Path) -> None:
    """Write atomically: a reader sees the whole file or the one before. Makes the folder.

    A link stays one: what it leads to is written. Raises `OSError` for a folder, and for what would be gone if a file
    took its place (a device, a pipe).
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "a folder or a device, not a file", str(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
