"""The ``.pth`` file by which an environment loads the plugins: written and removed only when a user asks for it."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from bridge_plugins.errors import UsageError
from bridge_plugins.whole_file import write_bytes

NAME = "bridge_plugins_autoload.pth"

#: Python runs a .pth line that starts with "import". find_spec keeps it silent when the package is gone.
LINE = (
    "import importlib.util; importlib.util.find_spec('bridge_plugins') and "
    "__import__('bridge_plugins.autoload', fromlist=['install']).install()\n"
)


def path() -> Path:
    """Where the file lies, or would, in the active environment."""
    return Path(sysconfig.get_path("purelib")) / NAME


def enabled() -> bool:
    """Whether this environment loads the plugins by itself."""
    return path().is_file()


def enable() -> Path:
    """Write the file; give its path. Raises `UsageError` where it can't be written."""
    try:
        write_bytes(LINE.encode(), path())  # processes that start meanwhile read it whole or not at all
    except OSError as error:
        raise UsageError(
            f"{path()} can't be written ({error.strerror}); use `bridge-plugins run -- COMMAND`, or a venv"
        ) from error
    return path()


def disable() -> Path:
    """Remove the file if it is there; give its path. Raises `UsageError` where it can't be removed."""
    try:
        path().unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(f"{path()} can't be removed ({error.strerror}); remove it by hand") from error
    return path()
