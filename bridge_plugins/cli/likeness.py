"""Trainer and engines on the same tokens, on a command line: asked, shown as text or as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.cli import show as shows
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import EngineError, UsageError
from bridge_plugins.launch.contracts import read_contract
from bridge_plugins.launch.flags import MAX_LOGPROB_DIFF
from bridge_plugins.parity.engine import sample, score
from bridge_plugins.parity.metrics import Parity, compare
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scored, read_scores

PROMPTS = (
    "The capital of France is",
    "def fibonacci(n):",
    "Water boils at a temperature of",
    "Once upon a time there was",
)


class Outcome(msgspec.Struct):
    """What was found; `failed` are engines that could not be asked, and why."""

    source: str
    version: str
    word: str
    limit: float
    engines: dict[str, Parity]
    failed: dict[str, str]
    findings: tuple[Finding, ...]
    line: str


def limit_of(limit: float | None, contract: str) -> float:
    """What was asked for; else a contract's; else that of bfloat16 on both sides."""
    if limit is not None and contract:
        raise UsageError("--limit and --contract exclude each other; give one")
    if limit is not None and not limit >= 0:  # nothing is larger than NaN
        raise UsageError(f"--limit {limit:g}: give nats, 0 or more")
    if contract:
        return read_contract(contract).max_logprob_diff
    return MAX_LOGPROB_DIFF if limit is None else limit


def find(
    source: str, urls: Sequence[str], *, limit: float, prompts: Sequence[str], new_tokens: int, key: str | None,
    timeout: float,
) -> Outcome:  # fmt: skip
    """Ask trainer and engines. Raises `EngineError` if no engine answers, `UsageError` for a source that is none."""
    engines = [Engine(url, api_key=key, timeout=timeout) for url in urls]
    failed: dict[str, str] = {}
    try:
        with shows.working("scoring") as progress, shows.quiet():
            path = Path(source)
            if path.is_dir():
                version, trainer, asked = _of_folder(
                    path, prompts or PROMPTS, new_tokens, engines, failed, progress
                )
            elif prompts:
                raise UsageError(
                    f"--prompt is for a Hugging Face folder; {source} has the tokens that its trainer scored"
                )
            else:
                scores = read_scores(path)
                version, trainer = scores.version, list(scores.sequences)
                asked = _ask(engines, failed, progress, lambda engine: score(engine, trainer))
    finally:
        for engine in engines:
            engine.close()
    report = ParityReport.of(
        version, {url: compare(one, trainer) for url, one in asked.items()}, limit, failed
    )
    return Outcome(source, version, report.word, limit, report.engines, failed, report.findings, str(report))


def show(outcome: Outcome, *, json: bool) -> None:
    """Print it: a line for each engine, the findings, and the last word."""
    if json:
        shows.as_json(outcome)
        return
    console = shows.console()
    for url, parity in outcome.engines.items():
        console.print(f"parity     {url}: {parity}", highlight=False, soft_wrap=True, markup=False)
    shows.findings(console, outcome.findings)
    console.print(outcome.line, highlight=False, soft_wrap=True, markup=False)


def _of_folder(
    folder: Path, prompts: Sequence[str], new_tokens: int, engines: Sequence[Engine], failed: dict[str, str],
    progress: Callable[[str], None],
) -> tuple[str, list[Scored], dict[str, list[Scored]]]:  # fmt: skip
    """The first engine that answers continues the prompts; the others and the folder's model score what it drew."""
    from bridge_plugins.parity.reference import reference_scores, tokenize

    tokens = tokenize(folder, prompts)
    drawn: list[Scored] = []

    def ask(engine: Engine) -> list[Scored]:
        if drawn:
            return score(engine, drawn)
        drawn.extend(sample(engine, tokens, new_tokens=new_tokens))
        return drawn

    asked = _ask(engines, failed, progress, ask)
    progress(str(folder))
    return "", reference_scores(folder, drawn), asked


def _ask(
    engines: Sequence[Engine], failed: dict[str, str], progress: Callable[[str], None],
    ask: Callable[[Engine], list[Scored]],
) -> dict[str, list[Scored]]:  # fmt: skip
    asked = {}
    for engine in engines:
        progress(engine.url)
        try:
            asked[engine.url] = ask(engine)
        except EngineError as error:
            failed[engine.url] = str(error)
    if not asked:
        raise EngineError("; ".join(failed.values()))
    return asked
