"""How buckets of HF tensors reach an engine. One object serves all engines of a push, and all pushes of a run."""

from __future__ import annotations

from typing import Any, Protocol

from bridge_plugins.engines.sglang.buckets import NamedTensors
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import EngineError


class Transport(Protocol):
    """A way to engines. `begin`, `load`, `end` and `abandon` are called for several engines at once, from threads."""

    def begin(self, engine: Engine) -> None:
        """Before the first bucket."""

    def pack(self, bucket: NamedTensors) -> Any:
        """Once for each bucket, whatever the number of engines: what `load` needs of it.

        Tells the audit of the very bytes that will leave (`handed_over`).
        """

    def load(self, engine: Engine, packed: Any) -> None:
        """Bring a bucket to an engine; returns once the engine has it."""

    def end(self, engine: Engine) -> None:
        """After the last bucket, if the engine took all of them."""

    def abandon(self, engine: Engine) -> None:
        """Instead of `end`, if something failed: close what is open. The engine may be gone."""

    def close(self) -> None:
        """After the last push of a run."""


class WeightUpdate:
    """An update that is open between a server's begin and end, where it has them (SGLang 0.5.21 and newer).

    Not for an engine with pipeline stages: they take a request one after the other, the later ones when it is answered
    already and its bucket is gone.
    """

    def __init__(self) -> None:
        self._open: set[str] = set()

    def begin(self, engine: Engine) -> None:
        _ = engine.ranks  # asked here, where nothing was sent yet, and not at the first bucket
        if engine.stages > 1:
            raise EngineError(
                f"it has {engine.stages} pipeline stages, which can't take an update in buckets: push from disk instead"
            )
        try:
            if engine.begin_weight_update():
                self._open.add(engine.url)
        except EngineError as error:
            if (
                error.status is None
            ):  # no answer is no refusal: it may be open, and nobody else would close it
                self._open.add(engine.url)
            raise

    def end(self, engine: Engine) -> None:
        if engine.url in self._open:
            self._open.discard(engine.url)
            engine.end_weight_update()

    def abandon(self, engine: Engine) -> None:
        self.end(engine)
