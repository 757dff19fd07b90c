"""How far trainer and engine are apart on the same tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from bridge_plugins.audit.finding import Finding
from bridge_plugins.errors import UsageError
from bridge_plugins.parity.scores import Scored, number


class Parity(msgspec.Struct, frozen=True):
    """Differences over `tokens` tokens, in nats.

    `kl_k1` and `kl_k3` estimate KL(engine ‖ trainer) from the sampled tokens alone, with r = trainer − engine:
    mean of −r, and of exp(r) − 1 − r (J. Schulman, "Approximating KL divergence", 2020). `greedy` is the share of
    tokens in whose place both sides think the same token likeliest. `mixed` counts sequences that were served by more
    than one weight version. Where a side gave no number, differences are NaN (null in JSON).
    """

    tokens: int
    max_abs: float
    mean_abs: float
    kl_k1: float
    kl_k3: float
    greedy: float
    versions: tuple[str, ...]
    mixed: int

    def __str__(self) -> str:
        return (
            f"tokens={self.tokens} max|Δlogprob|={self.max_abs:.4f} mean|Δ|={self.mean_abs:.4f} "
            f"kl_k1={self.kl_k1:.2e} kl_k3={self.kl_k3:.2e} greedy={self.greedy:.1%} "
            f"weight_version={','.join(self.versions)} mixed_versions={self.mixed}"
        )

    def findings(self, engine: str, limit: float, version: str = "") -> Iterator[Finding]:
        """What is wrong.

        Args:
            engine: its URL, for the text.
            limit: what the mean difference may be. 0.0 allows no token any difference.
            version: the trainer's; an empty one is compared with nothing.
        """
        if not self.mean_abs <= limit:  # a NaN is over any limit
            yield Finding(
                "PARITY",
                engine,
                f"log probabilities differ by {self.mean_abs:.4g} nats in the mean; {limit:g} is allowed",
                "`bridge-audit verify` tells whether weights are the cause",
                expected=f"{limit:g}",
                found=f"{self.mean_abs:.4g}",
            )
        if self.mixed:
            what = f"{self.mixed} sequences were sampled while the weight version changed"
            yield Finding("PARITY", engine, what, "pause generation for a push")
        if version and self.versions != (version,):
            served = ", ".join(self.versions)
            yield Finding(
                "PARITY",
                engine,
                f"serves version {served}, and the trainer's scores are of version {version}",
                "compare scores of the version that is served",
                expected=version,
                found=served,
            )


def compare(engine: Sequence[Scored], trainer: Sequence[Scored]) -> Parity:
    """Hold an engine's scores against a trainer's of the same sequences.

    Raises:
        UsageError: if there are none, or they are of other tokens.
    """
    if [one.tokens for one in engine] != [one.tokens for one in trainer]:
        raise UsageError("trainer and engine scored different tokens; score the same ones")
    every: list[float] = []
    sampled: list[float] = []
    same: list[bool] = []
    for ours, theirs in zip(engine, trainer, strict=True):
        differences = [number(b) - number(a) for a, b in zip(ours.logprobs, theirs.logprobs, strict=True)]
        every += differences
        sampled += differences[ours.prompt_length - 1 :]
        same += [a == b for a, b in zip(ours.greedy, theirs.greedy, strict=True)]
    if not every:
        raise UsageError("there are no tokens to compare")
    return Parity(
        tokens=len(every),
        # max() would pass over a NaN.
        max_abs=math.nan if any(map(math.isnan, every)) else max(map(abs, every)),
        mean_abs=_mean([abs(r) for r in every]),
        kl_k1=_mean([-r for r in sampled]),
        kl_k3=_mean([_k3(r) for r in sampled]),
        greedy=_mean(same),
        versions=tuple(sorted({version for one in engine for version in one.versions})),
        mixed=sum(len(set(one.versions)) > 1 for one in engine),
    )


def _k3(r: float) -> float:
    # expm1 overflows where the trainer thinks far likelier what the engine all but excluded.
    return math.expm1(r) - r if r < 700 else math.inf


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers) if numbers else 0.0
