"""The label that says which version an engine serves: given to all engines of a version, or to none."""

from __future__ import annotations

from collections.abc import Sequence

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.fleet import OnFailure
from bridge_plugins.errors import EngineError


def label(engines: Sequence[Engine], version: str, on_failure: OnFailure) -> dict[str, str]:
    """Give `version` to `engines`, which were all verified; tell which could not be labelled, by URL, and why.

    Raises:
        EngineError: with "stop", if one could not be labelled: the others have got their old label back, or are named.
    """
    failed: dict[str, str] = {}
    labelled: list[tuple[Engine, str]] = []
    for engine in engines:
        try:
            before = engine.weight_version()
            engine.set_weight_version(version)
        except EngineError as error:
            why = f"{engine.url} serves version {version} and could not be labelled: {error}"
            if on_failure == "stop":
                raise EngineError(why + _take_back(labelled)) from error
            failed[engine.url] = why
        else:
            labelled.append((engine, before))
    return failed


def _take_back(labelled: Sequence[tuple[Engine, str]]) -> str:
    kept = []
    for engine, before in labelled:
        try:
            engine.set_weight_version(before)
        except EngineError:
            kept.append(engine.url)
    return f"; these keep the new label: {', '.join(kept)}" if kept else ""
