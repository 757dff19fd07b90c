"""Optimizer steps on real text, through Megatron's own pipeline schedule."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from examples.bridge_mode.checkpoint import TEXT
from examples.bridge_mode.model import Trainer

LENGTH = 64  # tokens of one sequence
BATCH = 2  # sequences of one microbatch


def batches(tokenizer_folder: Path) -> Iterator[Tensor]:
    """Windows of the text's tokens, `BATCH` × `LENGTH`, without end; others for each data-parallel rank."""
    from megatron.core import parallel_state
    from transformers import AutoTokenizer

    tokens = AutoTokenizer.from_pretrained(tokenizer_folder)(TEXT.read_text())["input_ids"]
    windows = torch.tensor(tokens).unfold(0, LENGTH, LENGTH // 2)
    generator = torch.Generator().manual_seed(parallel_state.get_data_parallel_rank())
    while True:
        yield windows[torch.randint(len(windows), (BATCH,), generator=generator)]


def step(trainer: Trainer, data: Iterator[Tensor], device: Any) -> tuple[float, float]:
    """One optimizer step over a few microbatches. Returns (mean loss in nats, norm of the gradient), on every rank."""
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func

    microbatches = 2 * parallel_state.get_pipeline_model_parallel_world_size()
    # The schedule runs forward through every chunk: each has its own iterator over the same batches.
    drawn = [next(data).to(device) for _ in range(microbatches)]
    positions = torch.arange(LENGTH, device=device).expand(BATCH, -1).contiguous()

    def forward_step(iterator: Any, chunk: Any) -> tuple[Tensor, Any]:
        tokens = next(iterator)
        losses = chunk(tokens, positions, None, labels=torch.roll(tokens, -1, 1))

        def loss(output: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            # The last position's label is the first token again: no prediction to learn from.
            mean = output[:, :-1].float().mean()
            # A copy: the schedule scales the loss in place.
            return mean, {"loss": mean.detach().clone()}

        return losses, loss

    chunks = trainer.chunks
    for chunk in chunks:
        chunk.zero_grad_buffer()
    trainer.optimizer.zero_grad()
    iterators = [iter(drawn) for _ in chunks]
    losses = get_forward_backward_func()(
        forward_step_func=forward_step,
        data_iterator=iterators if len(chunks) > 1 else iterators[0],
        model=chunks,
        num_microbatches=microbatches,
        seq_length=LENGTH,
        micro_batch_size=BATCH,
        forward_only=False,
    )
    _done, norm, _zeros = trainer.optimizer.step()
    mean = (
        torch.stack([entry["loss"] for entry in losses]).mean() if losses else torch.zeros((), device=device)
    )
    dist.broadcast(mean, src=dist.get_world_size() - 1)  # the last rank is always of the last stage
    return float(mean), float(norm)
