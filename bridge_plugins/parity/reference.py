"""A Hugging Face folder in the trainer's place: transformers' own model, on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from bridge_plugins.errors import UsageError
from bridge_plugins.parity.scores import Scored

_SAID = 200  #: letters of what transformers says: often an essay


def tokenize(folder: Path, prompts: Sequence[str]) -> list[list[int]]:
    """Token numbers of each prompt, by the folder's own tokenizer. Raises `UsageError` if it has none."""
    from transformers import AutoTokenizer

    tokenizer = _loaded(AutoTokenizer, folder)
    tokens: list[list[int]] = [tokenizer(prompt)["input_ids"] for prompt in prompts]
    if short := [prompt for prompt, numbers in zip(prompts, tokens, strict=True) if not numbers]:
        raise UsageError(f"the prompt {short[0]!r} has no tokens")
    return tokens


def reference_scores(folder: Path, sequences: Sequence[Scored]) -> list[Scored]:
    """Score the tokens of `sequences` in the checkpoint's own dtype. Raises `UsageError` if it can't be loaded whole."""
    from transformers import AutoModelForCausalLM

    model, info = _loaded(AutoModelForCausalLM, folder, dtype="auto", output_loading_info=True)
    if missing := sorted(info["missing_keys"]):  # which transformers would make up
        raise UsageError(f"{folder} lacks {len(missing)} tensors ({missing[0]}, …) of its model")
    model.eval()
    scored = []
    for one in sequences:
        with torch.no_grad():
            logits = model(torch.tensor([one.tokens])).logits[0, :-1].float()
        following = torch.tensor(one.tokens[1:])
        logprobs = logits.log_softmax(-1).gather(-1, following[:, None])[:, 0]
        numbers = tuple(None if value.isnan() else float(value) for value in logprobs)
        scored.append(Scored(one.tokens, one.prompt_length, numbers, tuple(logits.argmax(-1).tolist())))
    return scored


def _loaded(loader: Any, folder: Path, **options: Any) -> Any:
    try:
        return loader.from_pretrained(folder, local_files_only=True, **options)
    except Exception as error:  # whatever transformers raises for a folder that isn't one of its own
        said = " ".join(str(error).split())[:_SAID] or type(error).__name__
        raise UsageError(f"transformers can't load {folder}: {said}") from error
