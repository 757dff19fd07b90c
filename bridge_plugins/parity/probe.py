"""After a push: the same tokens through the trainer and through every engine, and sinks are told how far they are apart."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.errors import EngineError
from bridge_plugins.first_rank import on_first_rank
from bridge_plugins.launch.flags import MAX_LOGPROB_DIFF
from bridge_plugins.parity.engine import sample, score
from bridge_plugins.parity.metrics import compare
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scored, Scores
from bridge_plugins.parity.trainer import trainer_scores
from bridge_plugins.plugins import manager

logger = logging.getLogger(__name__)


@dataclass
class ParityProbe:
    """Compares log probabilities of a trainer with those of its engines, version by version.

    The first engine continues the prompts; the others score the tokens that it drew, and so does the trainer: one
    forward pass, however many engines there are.

    Args:
        model: the model's chunks on this rank; every rank has a probe.
        prompts: token numbers.
        engines: on rank 0 of `group`; empty on the others.
        limit: what the mean difference may be, in nats; a contract's is `Settings.max_logprob_diff`.
        new_tokens: that the first engine draws for each prompt.
        group: a CPU process group of the trainer's ranks; None for the default group.
    """

    model: list[Any]
    prompts: Sequence[Sequence[int]]
    engines: Sequence[Engine] = ()
    limit: float = MAX_LOGPROB_DIFF
    new_tokens: int = 16
    group: Any = None

    def measure(self, version: str) -> ParityReport:
        """Of the weights that trainer and engines hold now. Every rank must call it, and gets the same.

        Args:
            version: of the trainer's weights; an engine that serves another is a finding.

        Raises:
            EngineError: on every rank, if an engine can't be asked.
        """
        asked: dict[str, list[Scored]] = on_first_rank(self._ask, self.group, error_type=EngineError)
        tokens = next(iter(asked.values()))
        trainer = trainer_scores(self.model, tokens)
        report = ParityReport.of(
            version, {url: compare(one, trainer) for url, one in asked.items()}, self.limit
        )
        if dist.get_rank(self.group) == 0:
            _tell_sinks(report, Scores(version, tuple(trainer)))
        return report

    def _ask(self) -> dict[str, list[Scored]]:
        first, *others = self.engines
        drawn = sample(first, self.prompts, new_tokens=self.new_tokens)
        return {first.url: drawn, **{engine.url: score(engine, drawn) for engine in others}}


def _tell_sinks(report: ParityReport, scores: Scores) -> None:
    try:
        manager().hook.after_parity(report=report, scores=scores)
    except Exception:
        logger.exception("an after_parity hook failed; the run goes on")
