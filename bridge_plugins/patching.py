"""A patch: what it replaces, why, whether it is needed here, and how to take it back to the very same object."""

from __future__ import annotations

import enum
import importlib
import inspect
import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import wrapt

logger = logging.getLogger(__name__)


class State(enum.Enum):
    """What became of a patch in this process."""

    APPLIED = "applied"
    WAITING = "waiting"  #: its module isn't imported yet; it will be judged when it is
    NOT_NEEDED = "not needed"  #: the probe finds no fault in what is installed
    REFUSED = "refused"  #: the target is gone, or its signature isn't the one the patch was written for
    FAILED = "failed"
    OFF = "off"  #: switched off by the user
    REVERTED = "reverted"


@dataclass
class Status:
    """A patch's state with its reason, as shown in the log, by ``doctor`` and in every summary's header."""

    state: State
    reason: str = ""


class Patch(Protocol):
    """What ``load()`` needs of a patch. `Replace` is the usual one."""

    @property
    def name(self) -> str:
        """Unique, the word by which a user switches the patch off."""

    @property
    def mends(self) -> str:
        """The fault that it mends, in one line."""

    @property
    def module(self) -> str:
        """The module that must be imported before the patch can be judged."""

    def apply(self) -> tuple[Status, Callable[[], None]]:
        """Judge and apply; give the status and what takes it back. Must not raise for a target that is gone."""


def _nothing() -> None:
    pass


def always(_: Any) -> bool:
    """A probe for what has the fault in every version."""
    return True


def wrapping(
    wrapper: Callable[[Callable[..., Any], Any, tuple[Any, ...], dict[str, Any]], Any],
) -> Callable[[Any], Any]:
    """A replacement that calls ``wrapper(wrapped, instance, args, kwargs)`` and keeps name, signature and docs."""
    return lambda original: wrapt.FunctionWrapper(original, wrapper)


@dataclass(frozen=True)
class Replace:
    """Puts another object in the place of ``target``.

    ``target`` is ``"module:attribute.attribute"``. ``replacement`` gets the object that stands there and
    gives the one that shall. ``probe`` gets it too and says whether it has the fault. ``signature`` names the
    leading parameters that the replacement counts on: a target that doesn't have them is left alone
    ("refused").
    """

    name: str
    target: str
    mends: str
    replacement: Callable[[Any], Any]
    probe: Callable[[Any], bool | str] = always
    signature: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        return self.target.partition(":")[0]

    def apply(self) -> tuple[Status, Callable[[], None]]:
        owner: Any = importlib.import_module(self.module)
        *path, attribute = self.target.partition(":")[2].split(".")
        for step in path:
            owner = getattr(owner, step, None)
        # What stands in the owner's own dict (a staticmethod, a class attribute) is what revert must put
        # back.
        inherited = attribute not in getattr(owner, "__dict__", {})
        original = getattr(owner, attribute, None)
        if original is None:
            return Status(State.REFUSED, f"{self.target} does not exist"), _nothing
        stored = original if inherited else owner.__dict__[attribute]
        if self.signature and (misfit := _misfit(original, self.signature)):
            return Status(State.REFUSED, f"{self.target} {misfit}"), _nothing
        found = self.probe(original)
        if not found:
            return Status(State.NOT_NEEDED, "what is installed does not have the fault"), _nothing
        setattr(owner, attribute, self.replacement(original))

        def revert() -> None:
            if inherited:
                delattr(owner, attribute)
            else:
                setattr(owner, attribute, stored)

        return Status(State.APPLIED, found if isinstance(found, str) else ""), revert


@dataclass(frozen=True)
class Enter:
    """Enters a context for the rest of the process: for what torch offers as a mode and not as an attribute."""

    name: str
    module: str
    mends: str
    context: Callable[[], AbstractContextManager[Any]]

    def apply(self) -> tuple[Status, Callable[[], None]]:
        entered = self.context()
        entered.__enter__()

        def leave() -> None:
            entered.__exit__(None, None, None)

        return Status(State.APPLIED), leave


def _misfit(function: Any, names: tuple[str, ...]) -> str:
    try:
        have = tuple(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return "has no readable signature"
    return "" if have[: len(names)] == names else f"takes ({', '.join(have)}), not ({', '.join(names)}, …)"


class Patcher:
    """The patches of one process: each applied at most once, none able to stop another."""

    def __init__(self) -> None:
        self.patches: dict[str, Patch] = {}
        self.status: dict[str, Status] = {}
        self._revert: dict[str, Callable[[], None]] = {}

    def add(self, patch: Patch, source: str, *, off: bool = False) -> None:
        """Apply `patch` now, or when its module is imported. A name that is here already is left as it is."""
        if patch.name in self.patches:
            return
        self.patches[patch.name] = patch
        if off:
            self._record(patch, Status(State.OFF, "switched off by BRIDGE_PLUGINS_DISABLE"), source)
        elif patch.module in sys.modules:
            self._apply(patch, source)
        else:
            self._record(patch, Status(State.WAITING, f"until {patch.module} is imported"), source)
            wrapt.register_post_import_hook(lambda _: self._apply(patch, source), patch.module)

    def revert(self, name: str) -> None:
        """Put back the very object that stood there before. Nothing happens if the patch isn't applied."""
        if self.status[name].state is State.APPLIED:
            self._revert.pop(name)()
            self.status[name] = Status(State.REVERTED)
        elif self.status[name].state is State.WAITING:
            self.status[name] = Status(State.REVERTED, "before its module was imported")

    def _apply(self, patch: Patch, source: str) -> None:
        if self.status.get(patch.name, Status(State.WAITING)).state is not State.WAITING:
            return
        try:
            status, self._revert[patch.name] = patch.apply()
        except Exception as error:  # one failed patch never stops the others, nor the user's import
            status = Status(State.FAILED, f"{type(error).__name__}: {error}")
        self._record(patch, status, source)

    def _record(self, patch: Patch, status: Status, source: str) -> None:
        self.status[patch.name] = status
        bad = status.state in (State.FAILED, State.REFUSED)
        logger.log(
            logging.WARNING if bad else logging.INFO,
            "patch %s of plugin %s on %s: %s%s; mends: %s",
            patch.name,
            source,
            getattr(patch, "target", patch.module),
            status.state.value,
            f" ({status.reason})" if status.reason else "",
            patch.mends,
        )
