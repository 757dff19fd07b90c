"""Where audited versions are told: ``BRIDGE_AUDIT_SINKS=json,log,tensorboard,wandb``. Off unless asked for.

A sink is a function of a summary and its findings. One of your own is a plugin with the hook `audit_finished`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from bridge_plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from bridge_plugins.audit.finding import Finding
    from bridge_plugins.audit.summary import Summary

    Sink = Callable[[Summary, list[Finding]], None]

logger = logging.getLogger(__name__)

_SINKS = {"json": "json_file", "log": "log_line", "tensorboard": "tensorboard", "wandb": "wandb"}


@hookimpl
def audit_finished(summary: Summary, findings: list[Finding]) -> None:
    """Tell the sinks that the environment asks for."""
    for name in _asked():
        try:
            _sink(name)(summary, findings)
        except Exception:  # one sink must not starve the others
            logger.exception("sink %s failed; the run goes on", name)


def _asked() -> list[str]:
    names = os.environ.get("BRIDGE_AUDIT_SINKS", "").split(",")
    return [name.strip() for name in names if name.strip()]


@functools.cache
def _sink(name: str) -> Sink:
    """The sink of that name; one that does nothing, and says so once, where it can't be had."""
    try:
        tell: Sink = importlib.import_module(f"bridge_plugins.sinks.{_SINKS[name]}").tell
        return tell
    except KeyError:
        logger.warning("there is no sink %s; known are %s", name, ", ".join(_SINKS))
    except ImportError as error:
        logger.warning("sink %s is left out: %s", name, error)
    return lambda summary, findings: None  # noqa: ARG005
