"""Settings of training frameworks that bypass Megatron Bridge, so that nothing here would take part."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from bridge_plugins.errors import UsageError


class Bypass(msgspec.Struct, frozen=True):
    """A setting that bypasses the bridge, where it stands, and what to set instead."""

    framework: str
    setting: str
    where: str
    remedy: str


#: framework: (what its config files say when they bypass the bridge, what to say instead)
SETTINGS = {
    "verl": (re.compile(r"vanilla_mbridge\s*[:=]\s*(true|1)\b", re.IGNORECASE), "vanilla_mbridge=False"),
    "slime": (
        re.compile(r"megatron[-_]to[-_]hf[-_]mode\s*[:= ]\s*raw\b", re.IGNORECASE),
        "--megatron-to-hf-mode bridge",
    ),
    "miles": (
        re.compile(r"megatron[-_]to[-_]hf[-_]mode\s*[:= ]\s*raw\b", re.IGNORECASE),
        "--megatron-to-hf-mode bridge",
    ),
}


def bypasses(files: Iterable[Path] = ()) -> list[Bypass]:
    """Bypassing settings among an installed framework's defaults, and in `files` (a run's config or script).

    Raises `UsageError` for a file that can't be read.
    """
    found = []
    for framework, (pattern, remedy) in SETTINGS.items():
        for where, line in _lines([*_defaults(framework), *files]):
            if match := pattern.search(line.split("#")[0]):
                found.append(Bypass(framework, match[0].strip(), where, remedy))
    return found


def _defaults(framework: str) -> list[Path]:
    spec = importlib.util.find_spec(framework)
    folders = [Path(folder) for folder in (spec.submodule_search_locations if spec else None) or ()]
    return sorted(path for folder in folders for path in folder.glob("trainer/config/**/*.yaml"))


def _lines(files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    for path in files:
        try:
            text = path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{path} can't be read ({error}); give a config file or a launch script"
            ) from error
        for number, line in enumerate(text.splitlines(), 1):
            yield f"{path}:{number}", line
