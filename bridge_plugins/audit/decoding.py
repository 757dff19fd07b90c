"""What ranks left in files, decoded: a file may be damaged, of a newer version of this package, or not one of ours."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from bridge_plugins.errors import UsageError

Content = TypeVar("Content", bound=msgspec.Struct)


class _Header(msgspec.Struct, frozen=True):
    schema: int = 0


class _Peek(msgspec.Struct, frozen=True):
    header: _Header | None = None


def decode(path: Path, kind: type[Content], schema: int, what: str) -> Content:
    """The content of a JSON file with a header that says its schema.

    Args:
        schema: the newest that can be read.
        what: what the file should be, as in ``summary``.

    Raises `UsageError` naming the file.
    """
    try:
        content = path.read_bytes()
        found = schema_of(content)
        if found is not None and found > schema:
            raise UsageError(f"{path} has schema {found}, this version reads up to {schema}")
        return msgspec.json.decode(content, type=kind)
    except (OSError, msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"{path} is no {what}: {error}") from error


def schema_of(content: bytes) -> int | None:
    """The schema that a file's header names; None for JSON of another kind.

    Raises msgspec.DecodeError for what is no JSON, and RecursionError for JSON that is nested too deeply.
    """
    try:
        header = msgspec.json.decode(content, type=_Peek).header
    except msgspec.ValidationError:
        return None
    return None if header is None else header.schema
