"""What the trainer says: Megatron's own forward pass, through its own pipeline schedule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def trainer_logprobs(model: list[Any], sequences: Sequence[Sequence[int]]) -> list[list[float]]:
    """Log probabilities of tokens 1… of each sequence. Every rank must call it; every rank gets the answer.

    Args:
        model: the model's chunks on this rank, as Megatron Bridge gives them.
        sequences: token numbers, of any lengths; all go in one microbatch.
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
        losses = chunk(ids, positions, None, labels=torch.roll(ids, -1, 1))
        return losses, lambda output, non_loss_data=True: output.detach().float().cpu()  # noqa: ARG005

    iterators = [iter([tokens] * microbatches) for _ in model]
    was_training = [chunk.training for chunk in model]
    for chunk in model:
        chunk.eval()
    with torch.no_grad():
        losses = get_forward_backward_func()(
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
    shared: list[Any] = [losses[0].tolist() if losses else None]
    dist.broadcast_object_list(shared, src=dist.get_world_size() - 1)
    return [[-loss for loss in row[: len(one) - 1]] for row, one in zip(shared[0], sequences, strict=True)]


def _padded(sequences: Sequence[Sequence[int]], multiple: int) -> Tensor:
    """Right-padded to one length (a causal model never looks there), which sequence parallelism can divide."""
    longest = max(map(len, sequences))
    length = -(-longest // multiple) * multiple
    rows = [[*one, *[0] * (length - len(one))] for one in sequences]
    return torch.tensor(rows, device=torch.cuda.current_device() if torch.cuda.is_available() else "cpu")
