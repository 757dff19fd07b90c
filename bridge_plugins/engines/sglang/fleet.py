"""Several engines called at once, each in a thread of its own; what fails on one is kept under its name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import BridgePluginsError

logger = logging.getLogger(__name__)

OnFailure = Literal["stop", "roll on"]
"""Whether the other engines go no further once one has failed, or finish without it."""


class Fleet:
    """Engines that go through the same steps together. Nothing that an engine does is raised here: see `failed`.

    Every call of `Engine` ends by itself, after its timeout at the latest, and so does every step.
    """

    def __init__(self, engines: Iterable[Engine], on_failure: OnFailure = "stop") -> None:
        self.engines = tuple(engines)
        self.failed: dict[str, str] = {}
        self._on_failure = on_failure
        self._threads = ThreadPoolExecutor(max(1, len(self.engines)), thread_name_prefix="engine")

    @property
    def live(self) -> Sequence[Engine]:
        """The engines that take part in the next step."""
        if self.failed and self._on_failure == "stop":
            return ()
        return [engine for engine in self.engines if engine.url not in self.failed]

    def each(self, what: str, act: Callable[[Engine], Any]) -> dict[str, Any]:
        """Do the next step on all live engines, and give what it gave, by URL. `what` says how it failed: "did not …"."""
        return self._run(what, act, self.live)

    def each_of(self, engines: Iterable[Engine], what: str, act: Callable[[Engine], Any]) -> dict[str, Any]:
        """The same on `engines`, also on those that have failed: for what is tidied up whatever happened."""
        return self._run(what, act, list(engines))

    def fail(self, what: str, error: Exception) -> None:
        """What went wrong here, before any engine was asked, fails all of them."""
        for engine in self.live:
            self._failed(engine, what, error)

    def close(self) -> None:
        self._threads.shutdown(wait=False)

    def _run(self, what: str, act: Callable[[Engine], Any], engines: Sequence[Engine]) -> dict[str, Any]:
        running = [(engine, self._threads.submit(act, engine)) for engine in engines]
        done = {}
        for engine, future in running:
            try:
                done[engine.url] = future.result()
            except Exception as error:  # whatever it is, the other ranks wait for our word
                self._failed(engine, what, error)
        return done

    def _failed(self, engine: Engine, what: str, error: Exception) -> None:
        kind = "" if isinstance(error, BridgePluginsError) else f"{type(error).__name__}: "
        if kind:
            logger.error("%s %s", engine.url, what, exc_info=error)
        self.failed.setdefault(engine.url, f"{engine.url} {what}: {kind}{error}")
