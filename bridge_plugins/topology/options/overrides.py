"""Hydra's overrides: ``key=value``, with ``+`` or ``++`` in front of keys that a config hasn't got."""

from __future__ import annotations

from collections.abc import Sequence

from bridge_plugins.errors import UsageError


def read(overrides: Sequence[str]) -> dict[str, str]:
    """Key → value; the last one of a key counts, as in Hydra. What is no override is left alone."""
    pairs = (
        override.partition("=") for override in overrides if "=" in override and not override.startswith("-")
    )
    return {key.lstrip("+~"): value.strip("'\"") for key, _, value in pairs}


def number(values: dict[str, str], key: str, default: int) -> int:
    """The number at `key`, or `default` where it isn't or is null. Raises `UsageError` for anything else."""
    value = values.get(key, "null")
    if value in ("null", "None"):
        return default
    try:
        return int(value)
    except ValueError:
        raise UsageError(f"{key}={value}: expected a number") from None


def truth(values: dict[str, str], key: str, default: bool) -> bool:
    """Whether `key` is true, in any of YAML's spellings."""
    return values.get(key, str(default)).lower() in ("true", "yes", "on", "1")
