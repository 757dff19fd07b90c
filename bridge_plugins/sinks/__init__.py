"""Where audited versions are told, and parity: ``BRIDGE_AUDIT_SINKS=json,log,tensorboard,wandb``. Off unless asked for.

A sink is a module with `tell` and `tell_parity`. One of your own is a plugin with the hooks `audit_finished` and
`after_parity`.
"""

from __future__ import annotations

import functools
import importlib
import logging
import os
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bridge_plugins.hookspecs import hookimpl

if TYPE_CHECKING:
    from bridge_plugins.audit.finding import Finding
    from bridge_plugins.audit.summary import Summary
    from bridge_plugins.parity.report import ParityReport
    from bridge_plugins.parity.scores import Scores

logger = logging.getLogger(__name__)

_SINKS = {"json": "json_file", "log": "log_line", "tensorboard": "tensorboard", "wandb": "wandb"}


@hookimpl
def audit_finished(summary: Summary, findings: list[Finding]) -> None:
    """Tell the sinks that the environment asks for."""
    _tell("tell", summary, findings)


@hookimpl
def after_parity(report: ParityReport, scores: Scores) -> None:
    """Tell the sinks that the environment asks for."""
    _tell("tell_parity", report, scores)


def _tell(call: str, *arguments: Any) -> None:
    for name in _asked():
        try:
            if sink := _sink(name):
                getattr(sink, call)(*arguments)
        except Exception:  # one sink must not starve the others
            logger.exception("sink %s failed; the run goes on", name)


def _asked() -> list[str]:
    names = os.environ.get("BRIDGE_AUDIT_SINKS", "").split(",")
    return [name.strip() for name in names if name.strip()]


@functools.cache
def _sink(name: str) -> ModuleType | None:
    """The sink of that name; None, which is said once, where it can't be had."""
    try:
        return importlib.import_module(f"bridge_plugins.sinks.{_SINKS[name]}")
    except KeyError:
        logger.warning("there is no sink %s; known are %s", name, ", ".join(_SINKS))
    except ImportError as error:
        logger.warning("sink %s is left out: %s", name, error)
    return None
