"""What the trainer says: Megatron's own forward pass, through its own pipeline schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from bridge_plugins.parity.scores import Scored


def trainer_scores(model: list[Any], sequences: Sequence[Scored]) -> list[Scored]:
    """Score the tokens of `sequences`. Every rank must call it with the same ones; every rank gets the answer.

    Args:
        model: the model's chunks on this rank, as Megatron Bridge gives them.
        sequences: of any lengths; all go in one microbatch.
    """
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func

    tokens = _padded(sequences, parallel_state.get_tensor_model_parallel_world_size())
    batch, length = tokens.shape
    # An interleaved schedule takes microbatches in multiples of the stages: the same one, as often.
    microbatches = parallel_state.get_pipeline_model_parallel_world_size() if len(model) > 1 else 1

    def forward_step(iterator: Any, chunk: Any) -> tuple[Tensor, Any]:
        ids = next(iterator)
        positions = torch.arange(length, device=ids.device).expand(batch, -1).contiguous()
        return chunk(ids, positions, None), lambda output, non_loss_data=True: _score(output, ids)  # noqa: ARG005

    iterators = [iter([tokens] * microbatches) for _ in model]
    was_training = [chunk.training for chunk in model]
    for chunk in model:
        chunk.eval()
    with torch.no_grad():
        scores = get_forward_backward_func()(
            forward_step_func=forward_step,
            data_iterator=iterators if len(model) > 1 else iterators[0],
            model=model,
            num_microbatches=microbatches,
            seq_length=length,
            micro_batch_size=batch,
            forward_only=True,
            collect_non_loss_data=True,
        )
    for chunk, training in zip(model, was_training, strict=True):
        chunk.train(training)
    # The last rank is always of the last stage: pipeline stages are the slowest-moving coordinate.
    shared: list[Any] = [[one.tolist() for one in scores[0]] if scores else None]
    dist.broadcast_object_list(shared, src=dist.get_world_size() - 1)
    return [_of(one, logprobs, greedy) for one, logprobs, greedy in zip(sequences, *shared[0], strict=True)]


def _score(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Log probabilities of the tokens that follow, and the likeliest ones; both batch × length.

    `logits` are batch × length × this TP rank's part of the vocabulary.
    """
    from megatron.core.tensor_parallel import vocab_parallel_cross_entropy

    likeliest = _likeliest(logits)  # before the cross entropy, which may work in place
    following = torch.roll(tokens, -1, 1).transpose(0, 1).contiguous()
    losses = vocab_parallel_cross_entropy(logits.float().transpose(0, 1).contiguous(), following)
    return -losses.transpose(0, 1).cpu(), likeliest.cpu()


def _likeliest(logits: Tensor) -> Tensor:
    from megatron.core import parallel_state

    group = parallel_state.get_tensor_model_parallel_group()
    best, where = logits.float().max(-1)
    where += dist.get_rank(group) * logits.shape[-1]
    everyones = [[torch.empty_like(one) for _ in range(dist.get_world_size(group))] for one in (best, where)]
    for mine, gathered in zip((best, where), everyones, strict=True):
        dist.all_gather(gathered, mine.contiguous(), group=group)
    bests, places = (torch.stack(each) for each in everyones)
    return places.gather(0, bests.argmax(0, keepdim=True)).squeeze(0)


def _of(one: Scored, logprobs: Sequence[float], greedy: Sequence[int]) -> Scored:
    """A row's numbers without those of its padding."""
    count = len(one.tokens) - 1
    numbers = tuple(value if value == value else None for value in logprobs[:count])
    return Scored(one.tokens, one.prompt_length, numbers, tuple(greedy[:count]))


def _padded(sequences: Sequence[Scored], multiple: int) -> Tensor:
    """Right-padded to one length (a causal model never looks there), which sequence parallelism can divide."""
    longest = max(len(one.tokens) for one in sequences)
    length = -(-longest // multiple) * multiple
    rows = [[*one.tokens, *[0] * (length - len(one.tokens))] for one in sequences]
    return torch.tensor(rows, device=torch.cuda.current_device() if torch.cuda.is_available() else "cpu")
