"""Versions of the packages that matter, and whether trainer and engine can live with each other's."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from collections.abc import Mapping

import msgspec
from packaging.requirements import InvalidRequirement, Requirement

from bridge_plugins.errors import UsageError

PACKAGES = (
    "megatron-bridge-plugins",
    "megatron-bridge",
    "megatron-core",
    "torch",
    "transformers",
    "sglang",
    "numba",
)
TRAINER, ENGINE = "megatron-bridge", "sglang"

#: What both sides must agree on when they share an environment.
SHARED = ("torch", "transformers")

_ASK = (
    "import importlib.metadata as m, json, sys\n"
    "have = {d.metadata['Name'].lower(): d.version for d in m.distributions()}\n"
    "print(json.dumps({n: have[n] for n in sys.argv[1:] if n in have}))"
)


class Pin(msgspec.Struct, frozen=True):
    """What `package` asks of `of`, what is there, and whether that will do."""

    package: str
    of: str
    asks: str
    installed: str
    fits: bool


def versions() -> dict[str, str]:
    """The installed versions of `PACKAGES` in this environment."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def versions_of(python: str) -> dict[str, str]:
    """The same of another environment, by its interpreter. Raises `UsageError` if that can't be asked."""
    try:
        command = [python, "-c", _ASK, *PACKAGES]  # an interpreter that the user names
        answer = subprocess.run(command, capture_output=True, check=True, timeout=60)  # noqa: S603
        return msgspec.json.decode(answer.stdout, type=dict[str, str])
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        status = getattr(error, "returncode", None)
        said = error if status is None else f"exit status {status}"
        raise UsageError(
            f"{python} can't be asked for its packages ({said}); give a Python interpreter"
        ) from error


def pins(installed: Mapping[str, str]) -> list[Pin]:
    """What trainer and engine, where installed here, ask of each shared package."""
    found = []
    for package in (TRAINER, ENGINE):
        if package not in installed:
            continue
        for text in importlib.metadata.requires(package) or []:
            try:
                requirement = Requirement(text)
            except InvalidRequirement:
                continue
            if requirement.name not in SHARED or (requirement.marker and not requirement.marker.evaluate()):
                continue
            version = installed.get(requirement.name, "")
            fits = bool(version) and requirement.specifier.contains(version, prereleases=True)
            found.append(
                Pin(package, requirement.name, str(requirement.specifier), version or "not installed", fits)
            )
    return found


def python() -> str:
    """This environment's interpreter and its version."""
    return f"{sys.executable} ({sys.version.split()[0]})"
