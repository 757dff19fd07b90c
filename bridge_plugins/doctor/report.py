"""The doctor's whole report, as a value."""

from __future__ import annotations

import contextlib
import importlib
import io
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bridge_plugins import plugins
from bridge_plugins.autoload import AWAITED, pth
from bridge_plugins.doctor import environment, frameworks
from bridge_plugins.doctor.environment import Pin
from bridge_plugins.doctor.frameworks import Bypass
from bridge_plugins.patching import State
from bridge_plugins.run_against import unknown


class PluginReport(msgspec.Struct, frozen=True):
    """A plugin: where it came from, the hooks it implements, and why it was left out if it was."""

    name: str
    where: str
    hooks: list[str]
    left_out: str = ""


class PatchReport(msgspec.Struct, frozen=True):
    """A patch: its state with the reason, what it replaces, and what it mends."""

    name: str
    state: str
    reason: str
    target: str
    mends: str


class Report(msgspec.Struct, frozen=True):
    """Everything that the doctor knows."""

    python: str
    versions: dict[str, str]
    autoload: bool
    plugins: list[PluginReport]
    patches: list[PatchReport]
    pins: list[Pin]
    bypasses: list[Bypass]
    notes: list[str]

    @property
    def healthy(self) -> bool:
        """No patch refused or failed, no plugin that can't be imported, no pin broken, nothing bypassed."""
        bad = {State.FAILED.value, State.REFUSED.value}
        lost = any(p.left_out and not p.left_out.startswith("switched off") for p in self.plugins)
        return not (
            lost
            or self.bypasses
            or any(patch.state in bad for patch in self.patches)
            or any(not pin.fits for pin in self.pins)
        )


def examine(files: Iterable[Path] = (), engine_python: str = "") -> Report:
    """Load the plugins, import Megatron Bridge so that every patch is judged, and report.

    Raises `UsageError` for files or an interpreter that can't be read.
    """
    bypasses = frameworks.bypasses(files)
    versions = environment.versions()
    notes = _notes(versions)
    if engine_python:
        notes += _other_environment(versions, environment.versions_of(engine_python))
    plugins.load()
    notes += _import_bridge(versions)
    return Report(
        python=environment.python(),
        versions=versions,
        autoload=pth.enabled(),
        plugins=[
            PluginReport(o.name, o.where, [] if o.left_out else plugins.hooks_of(o.name), o.left_out)
            for o in plugins.origins().values()
        ],
        patches=[
            PatchReport(
                name, status.state.value, status.reason, getattr(patch, "target", patch.module), patch.mends
            )
            for name, patch in plugins.patcher().patches.items()
            for status in (plugins.patcher().status[name],)
        ],
        pins=environment.pins(versions),
        bypasses=bypasses,
        notes=notes,
    )


def _notes(versions: dict[str, str]) -> list[str]:
    bridge = versions.get(environment.TRAINER)
    if bridge is None:
        return ["megatron-bridge is not installed here: no patch can be judged"]
    note = unknown(bridge)
    return [note] if note else []


def _other_environment(here: dict[str, str], there: dict[str, str]) -> list[str]:
    """Trainer here, engine there: weights travel by HF name and bytes, so versions may differ; show where they do."""
    if environment.ENGINE not in there:
        return ["the engine's environment has no sglang"]
    differing = [name for name in environment.SHARED if here.get(name) != there.get(name)]
    return [f"the engine has {name} {there.get(name)}, the trainer {here.get(name)}" for name in differing]


def _import_bridge(versions: dict[str, str]) -> list[str]:
    if environment.TRAINER not in versions:
        return []
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(AWAITED)
    except Exception as error:  # the report is about what doesn't work
        return [f"{AWAITED} can't be imported: {type(error).__name__}: {error}"]
    return []
