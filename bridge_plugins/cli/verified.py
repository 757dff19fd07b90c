"""What engines serve, on a command line: asked, shown as text or as JSON."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.audit.verdict import Verdict
from bridge_plugins.cli import show as shows
from bridge_plugins.cli import sources
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.comparison import Comparison
from bridge_plugins.engines.verify import verify
from bridge_plugins.errors import EngineError, UsageError

SHOWN = 5  #: reasons why something was not compared; all of them are in the JSON


class Served(msgspec.Struct):
    """One engine's part of the outcome. `engine_bytes` are of all its ranks' memory; `label` is its weight version."""

    url: str
    label: str
    tensors: int
    mismatched: list[str]
    not_compared: dict[str, str]
    bytes: int
    compared_bytes: int
    engine_bytes: int
    engine_compared_bytes: int


class Outcome(msgspec.Struct):
    """What was found; `failed` are engines that could not be asked, and why."""

    source: str
    version: str
    word: str
    tensors: int
    engines: list[Served]
    failed: dict[str, str]
    findings: list[Finding]
    line: str

    @property
    def consistent(self) -> bool:
        return self.word == "consistent"


def key_from(variable: str) -> str | None:
    """The admin key in an environment variable; None for none. Raises `UsageError` if it is not set."""
    if not variable:
        return None
    if variable not in os.environ:
        raise UsageError(f"--api-key-env {variable}: there is no such variable in the environment")
    return os.environ[variable]


def find(source: str, urls: Sequence[str], *, earlier: str, key: str | None, timeout: float) -> Outcome:
    """Ask the engines. Raises `EngineError` if none of them answers."""
    summary = sources.read(source)
    previous = sources.read(earlier) if earlier else None
    engines = [Engine(url, api_key=key, timeout=timeout) for url in urls]
    try:
        with shows.working("reading back") as progress:
            progress(", ".join(urls))
            verified = verify(summary, engines, previous)
        if not verified.comparisons:
            raise EngineError("; ".join(verified.failed.values()))
        labels = {engine.url: _label(engine) for engine in engines if engine.url not in verified.failed}
    finally:
        for engine in engines:
            engine.close()
    verdict: Verdict = verified.verdict(summary)
    return Outcome(
        source=source,
        version=summary.header.version,
        word=verdict.word,
        tensors=len(summary.records),
        engines=[_served(one, labels[one.engine]) for one in verified.comparisons],
        failed=verified.failed,
        findings=list(verdict.findings),
        line=str(verdict),
    )


def show(outcome: Outcome, *, json: bool) -> None:
    """Print it: a line for each engine, the findings, and the verdict with what it covers."""
    if json:
        shows.as_json(outcome)
        return
    console = shows.console()
    for one in outcome.engines:
        console.print(
            f"readback   {one.url} (version {one.label}): {len(one.mismatched)} of {one.tensors} tensors differ, "
            f"{one.compared_bytes:,} of {one.bytes:,} bytes compared; "
            f"{one.engine_compared_bytes:,} of the {one.engine_bytes:,} bytes that it serves",
            highlight=False, soft_wrap=True, markup=False,
        )  # fmt: skip
        for why, count in Counter(one.not_compared.values()).most_common(SHOWN):
            name = next(name for name, reason in one.not_compared.items() if reason == why)
            more = f" and {count - 1} more" if count > 1 else ""
            console.print(f"not compared  {name}{more}: {why}", highlight=False, soft_wrap=True, markup=False)
    shows.findings(console, outcome.findings)
    console.print(outcome.line, highlight=False, soft_wrap=True, markup=False)


def _label(engine: Engine) -> str:
    try:
        return engine.weight_version()
    except EngineError:
        return "unknown"


def _served(one: Comparison, label: str) -> Served:
    return Served(
        one.engine, label, one.tensors, list(one.mismatched), one.not_compared, one.total_bytes, one.compared_bytes,
        one.engine_served, one.engine_compared,
    )  # fmt: skip
