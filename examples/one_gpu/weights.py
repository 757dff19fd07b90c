"""Weights made on the spot, where they are needed: nothing is read, nothing is copied."""

from __future__ import annotations

from typing import Any

import torch


@torch.no_grad()
def fill(chunks: list[Any]) -> None:
    """Random weights, the same in every run: norms around 1, the rest around 0, routers wide enough to route clearly."""
    for chunk in chunks:
        device = next(chunk.parameters()).device
        generator = torch.Generator(device).manual_seed(1)
        for name, parameter in chunk.named_parameters():
            if parameter.ndim == 1:
                parameter.normal_(1.0, 0.02, generator=generator)
            else:
                parameter.normal_(0.0, 0.1 if "router" in name else 0.02, generator=generator)
        for name, buffer in chunk.named_buffers():
            if name.endswith(".expert_bias"):  # it is in the checkpoint, though no optimizer's
                buffer.normal_(0.0, 0.02, generator=generator)


@torch.no_grad()
def nudge(chunks: list[Any]) -> None:
    """Change every weight a little: stands for an optimizer step where there is no room for an optimizer."""
    for chunk in chunks:
        for parameter in chunk.parameters():
            parameter.mul_(1 + 2**-6)
