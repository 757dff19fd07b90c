"""How far trainer and engine are apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from bridge_plugins.parity.engine import Sample


@dataclass(frozen=True)
class Parity:
    """Differences over `tokens` tokens, in nats.

    `kl_k1` and `kl_k3` estimate KL(engine ‖ trainer) from the sampled tokens alone, with r = trainer − engine:
    mean of −r, and of exp(r) − 1 − r (J. Schulman, "Approximating KL divergence", 2020). `mixed` counts samples
    that were served by more than one weight version.
    """

    tokens: int
    max_abs: float
    mean_abs: float
    kl_k1: float
    kl_k3: float
    versions: tuple[str, ...]
    mixed: int

    def __str__(self) -> str:
        return (
            f"parity  tokens={self.tokens} max|Δlogprob|={self.max_abs:.4f} mean|Δ|={self.mean_abs:.4f} "
            f"kl_k1={self.kl_k1:.2e} kl_k3={self.kl_k3:.2e} "
            f"weight_version={','.join(self.versions)} mixed_versions={self.mixed}"
        )


def compare(samples: Sequence[Sample], trainer: Sequence[Sequence[float]]) -> Parity:
    """Hold the engine's log probabilities against the trainer's of the same tokens.

    Args:
        samples: what the engine gave.
        trainer: for each sample, the trainer's log probabilities of tokens 1…, as long as the sample's.
    """
    every, sampled = [], []
    for one, other in zip(samples, trainer, strict=True):
        differences = [theirs - ours for ours, theirs in zip(one.logprobs, other, strict=True)]
        every += differences
        sampled += differences[one.prompt_length - 1 :]
    versions = sorted({version for one in samples for version in one.versions})
    return Parity(
        tokens=len(every),
        # max() would pass over a NaN.
        max_abs=math.nan if any(map(math.isnan, every)) else max(map(abs, every)),
        mean_abs=sum(map(abs, every)) / len(every),
        kl_k1=sum(-r for r in sampled) / len(sampled),
        kl_k3=sum(math.expm1(r) - r for r in sampled) / len(sampled),
        versions=tuple(versions),
        mixed=sum(len(set(one.versions)) > 1 for one in samples),
    )
