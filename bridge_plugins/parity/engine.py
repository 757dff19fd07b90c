"""What the engine says: it continues prompts, and gives the log probability of every token, its own and the prompt's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_plugins.engines.sglang.client import Engine


@dataclass(frozen=True)
class Sample:
    """One sequence: prompt and sampled tokens, the engine's log probabilities of tokens 1…, and the versions served.

    ``logprobs[i]`` belongs to ``tokens[i + 1]`` (the first token has none).
    """

    tokens: tuple[int, ...]
    prompt_length: int
    logprobs: tuple[float, ...]
    versions: tuple[str, ...]


def sample(
    engine: Engine, prompts: Sequence[Sequence[int]], *, new_tokens: int, temperature: float = 1.0
) -> list[Sample]:
    """Let `engine` continue each prompt (token numbers) by `new_tokens` tokens."""
    replies = engine.generate(
        input_ids=[list(prompt) for prompt in prompts],
        sampling_params={"temperature": temperature, "max_new_tokens": new_tokens, "ignore_eos": True},
        return_logprob=True,
        logprob_start_len=0,
    )
    samples = []
    for prompt, reply in zip(prompts, replies, strict=True):
        facts = reply["meta_info"]
        given = [entry[0] for entry in facts["input_token_logprobs"][1:]]
        sampled = [entry[0] for entry in facts["output_token_logprobs"]]
        tokens = [entry[1] for entry in facts["output_token_logprobs"]]
        spans = facts.get("weight_versions") or [{"version": facts.get("weight_version")}]
        samples.append(
            Sample(
                (*prompt, *tokens),
                len(prompt),
                (*given, *sampled),
                tuple(str(span["version"]) for span in spans),
            )
        )
    return samples
