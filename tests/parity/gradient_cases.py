"""What a rank does in the tests of gradients: real backward passes, broken at one place before they are looked at."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bridge_plugins.topology import Topology


def two_steps(checkpoint: str, topology: dict[str, Any], poisoned: str, cleared: str) -> dict[str, Any]:
    """Two optimizer steps through Megatron's data parallelism (``main_grad``). The second one is broken.

    Args:
        poisoned: one element of this parameter's gradient becomes NaN.
        cleared: gradients of all parameters whose names begin like this become zero.
    """
    import torch

    from bridge_plugins.parity.gradients import GradientAudit
    from examples.bridge_mode import model, training

    trainer = model.build(Path(checkpoint), Topology(**topology), learning_rate=1e-3)
    audit = GradientAudit(trainer.chunks)
    named = _by_name(trainer.chunks)
    step, norms, told = trainer.optimizer.step, [], []

    def hurt() -> None:
        for name, parameter in named.items():
            if name.startswith(cleared):
                parameter.main_grad.zero_()
            if name == poisoned:
                parameter.main_grad.view(-1)[3] = torch.nan

    def looking(before: Callable[[], None]) -> Callable[[], Any]:
        def looked() -> Any:
            before()
            audit.look()
            return step()

        return looked

    generator = torch.Generator().manual_seed(1)
    for before in (lambda: None, hurt):
        trainer.optimizer.step = looking(before)
        batches = [torch.randint(512, (2, training.LENGTH), generator=generator) for _ in range(8)]
        _, norm = training.step(trainer, iter(batches), torch.cuda.current_device())
        found = audit.finish("7")
        norms.append((norm, found.total.norm))
        told.append(msgspec.to_builtins(found))
    return {"norms": norms, "clean": told[0], "broken": told[1]}


def plain_backward(checkpoint: str, frozen: str, taken: str) -> Any:
    """One backward pass without Megatron's data parallelism (``grad``).

    Args:
        frozen: this parameter isn't trained.
        taken: rank 1's copy of this parameter has no gradient.
    """
    import torch
    import torch.distributed as dist

    from bridge_plugins.parity.gradients import GradientAudit
    from tests.stacks.trainer import build

    chunks = build(checkpoint, Topology(tp=2)).model
    audit = GradientAudit(chunks)
    named = _by_name(chunks)
    named[frozen].requires_grad_(False)
    tokens = torch.arange(64).reshape(2, 32)
    positions = torch.arange(32).expand(2, -1).contiguous()
    chunks[0](tokens, positions, None, labels=tokens.roll(-1, 1)).float().mean().backward()
    if dist.get_rank() == 1:
        named[taken].grad = None
    audit.look()
    return msgspec.to_builtins(audit.finish("1"))


def _by_name(chunks: list[Any]) -> dict[str, Any]:
    from bridge_plugins.names.mapping import local_to_global

    return {
        local_to_global(chunks, chunks[0].config, local, number): parameter
        for number, chunk in enumerate(chunks)
        for local, parameter in chunk.named_parameters()
    }
