"""What can go wrong, as types: one clear line each that says what, where, and what would work."""

from __future__ import annotations


class BridgePluginsError(Exception):
    """Root of every error that this project raises on purpose."""


class UsageError(BridgePluginsError):
    """What was asked for can't be done as asked: an option, a size, a folder. Command lines exit with 2."""


class PatchError(BridgePluginsError):
    """A patch could not be applied and strict mode makes that an error."""


class NamingError(BridgePluginsError):
    """A parameter's global name needs a number that nothing gives; the message says which, where, and what helps."""


class LayoutError(BridgePluginsError):
    """An engine's or a rank's layout could not be found out, or a probe could not be undone."""


class PushError(BridgePluginsError):
    """A push did not reach an engine whole; the engine's weight version has not been moved."""


class BarrierError(BridgePluginsError):
    """Ranks waited for others that did not come; rank 0's message names those."""


class VetoError(BridgePluginsError):
    """A version was stopped before it was pushed: by a `before_push` hook, or by strict mode. Raised on every rank."""


class EngineError(BridgePluginsError):
    """An engine did not answer, refused a call, or lacks the plugin. `status` is its HTTP status, if it gave one."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
