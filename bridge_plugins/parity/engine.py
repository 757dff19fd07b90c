"""What an engine says: it continues prompts, or takes sequences as they are, and scores every token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.parity.scores import Scored


def sample(
    engine: Engine,
    prompts: Sequence[Sequence[int]],
    *,
    new_tokens: int,
    temperature: float = 1.0,
    adapter: str = "",
) -> list[Scored]:
    """Let `engine` continue each prompt (token numbers) by `new_tokens` tokens, with LoRA `adapter` if it is named."""
    replies = _generate(
        engine,
        prompts,
        {"temperature": temperature, "max_new_tokens": new_tokens, "ignore_eos": True},
        **({"lora_path": [adapter] * len(prompts)} if adapter else {}),
    )
    return [_scored(prompt, reply, len(prompt)) for prompt, reply in zip(prompts, replies, strict=True)]


def score(engine: Engine, sequences: Sequence[Scored]) -> list[Scored]:
    """Let `engine` score the tokens of `sequences`, and none of its own."""
    # Servers want to sample one token at least.
    replies = _generate(engine, [one.tokens for one in sequences], {"temperature": 0.0, "max_new_tokens": 1})
    return [
        _scored(one.tokens, reply, one.prompt_length, sampled=False)
        for one, reply in zip(sequences, replies, strict=True)
    ]


def _generate(
    engine: Engine, inputs: Sequence[Sequence[int]], sampling: dict[str, Any], **request: Any
) -> Any:
    return engine.generate(
        input_ids=[list(tokens) for tokens in inputs],
        sampling_params=sampling,
        return_logprob=True,
        logprob_start_len=0,
        top_logprobs_num=1,
        **request,
    )


def _scored(given: Sequence[int], reply: Any, prompt_length: int, *, sampled: bool = True) -> Scored:
    facts = reply["meta_info"]
    # The first token has no log probability. An entry is (log probability, token, text or None).
    entries = facts["input_token_logprobs"][1:]
    likeliest = facts["input_top_logprobs"][1:]
    tokens = list(given)
    if sampled:
        entries = [*entries, *facts["output_token_logprobs"]]
        likeliest = [*likeliest, *facts["output_top_logprobs"]]
        tokens += [entry[1] for entry in facts["output_token_logprobs"]]
    spans = facts.get("weight_versions") or [{"version": facts.get("weight_version")}]
    return Scored(
        tuple(tokens),
        prompt_length,
        tuple(entry[0] for entry in entries),
        tuple(top[0][1] for top in likeliest),
        tuple(str(span["version"]) for span in spans),
    )
