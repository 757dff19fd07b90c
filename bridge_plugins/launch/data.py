"""Settings as data: TOML files that come with this package, or a user's own."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TypeVar

import msgspec

from bridge_plugins.errors import UsageError

Data = TypeVar("Data", bound=msgspec.Struct)


def names(package: str) -> list[str]:
    """The names of the files in `package`, without their suffix."""
    files = (file.name for file in resources.files(package).iterdir())
    return sorted(name.removesuffix(".toml") for name in files if name.endswith(".toml"))


def read(package: str, name: str, kind: type[Data]) -> Data:
    """The file of that name in `package`, or the file at the path `name` if that ends in ``.toml``.

    Raises `UsageError` for a name that isn't there, and for a file that can't be read or has a wrong field in it.
    """
    if not name.endswith(".toml"):
        if name not in names(package):
            raise UsageError(
                f"there is no {name!r}: one of {', '.join(names(package))}, or the path of a .toml file"
            )
        content = resources.files(package).joinpath(f"{name}.toml").read_bytes()
    else:
        try:
            content = Path(name).read_bytes()
        except OSError as error:
            raise UsageError(f"{name} can't be read: {error.strerror}") from error
    try:
        return msgspec.toml.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise UsageError(f"{name}: {error}") from error
