"""Log probabilities of sequences of tokens, as one side gives them; and a file of the trainer's."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import msgspec

from bridge_plugins.errors import UsageError
from bridge_plugins.whole_file import write_json


class Scored(msgspec.Struct, frozen=True):
    """One sequence of tokens, scored by one side.

    Attributes:
        tokens: prompt and continuation.
        prompt_length: how many of them are the prompt.
        logprobs: in nats; ``logprobs[i]`` is of ``tokens[i + 1]``: the first token has none. None stands for NaN.
        greedy: what this side thinks likeliest in the place of ``tokens[i + 1]``.
        versions: weight versions that an engine served it with; more than one if they changed on the way.
    """

    tokens: tuple[int, ...]
    prompt_length: int
    logprobs: tuple[float | None, ...]
    greedy: tuple[int, ...]
    versions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not len(self.tokens) - 1 == len(self.logprobs) == len(self.greedy) or not self.logprobs:
            raise ValueError(
                f"{len(self.tokens)} tokens have {len(self.logprobs)} log probabilities and {len(self.greedy)} likeliest "
                "tokens; there must be one less of these than tokens, and one at least"
            )


def number(logprob: float | None) -> float:
    """JSON has no NaN."""
    return math.nan if logprob is None else logprob


class Scores(msgspec.Struct, frozen=True):
    """A trainer's scores of some sequences at one weight version, as ``bridge-audit parity`` takes them."""

    version: str
    sequences: tuple[Scored, ...]
    kind: Literal["trainer scores"] = "trainer scores"
    schema: Literal[1] = 1

    def write(self, path: Path) -> None:
        """Write as JSON, atomically: a reader sees the whole file or the one before."""
        write_json(self, path)


def read_scores(path: Path) -> Scores:
    """Read what `Scores.write` wrote. Raises `UsageError` for anything else."""
    try:
        scores = msgspec.json.decode(path.read_bytes(), type=Scores)
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no file of a trainer's scores: {error}") from error
    if not scores.sequences:
        raise UsageError(f"{path} holds no sequence")
    return scores
