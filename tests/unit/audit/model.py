"""A small model's summary, made of records as a stream would leave them, to break in one place at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from bridge_plugins.audit import Expected, Finding, Header, Record, Summary, summarize
from bridge_plugins.audit.rules import Context, Rule
from bridge_plugins.fingerprint import fingerprint
from bridge_plugins.layout.sources import Source

Weights = dict[str, Tensor]
Change = Callable[[Weights], Weights]

LAYERS, EXPERTS = 6, 4


def weights(seed: int = 0) -> Weights:
    """Six layers of attention and four experts, an embedding and an output layer, in bfloat16."""
    generator = torch.Generator().manual_seed(seed)
    names = ["model.embed_tokens.weight", "lm_head.weight"]
    for layer in range(LAYERS):
        names += [
            f"model.layers.{layer}.self_attn.{part}.weight" for part in ("q_a_proj", "kv_a_proj_with_mqa")
        ]
        names += [f"model.layers.{layer}.mlp.gate.weight"]
        for expert in range(EXPERTS):
            inside = f"model.layers.{layer}.mlp.experts.{expert}"
            names += [f"{inside}.{part}_proj.weight" for part in ("gate", "up", "down")]
    tensors = {name: torch.randn(8, 16, generator=generator).to(torch.bfloat16) for name in names}
    norms = {
        f"model.layers.{layer}.input_layernorm.weight": torch.ones(16).to(torch.bfloat16)
        for layer in range(LAYERS)
    }
    return {**tensors, **norms}


def record(name: str, tensor: Tensor, **fields: Any) -> Record:
    return Record.of(name, tuple(tensor.shape), tensor.nbytes, fingerprint(tensor), **fields)


def summary(tensors: Weights, *, bucket: int | None = None, **header: Any) -> Summary:
    given = {"model": "small", "topology": "", "version": "1", **header}
    return summarize(
        Header(**given), (record(name, tensor, bucket=bucket) for name, tensor in tensors.items())
    )


def expected(tensors: Weights, **fields: Any) -> Expected:
    sources = {
        name: Source(name, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))
        for name, tensor in tensors.items()
    }
    return Expected("the checkpoint", sources, **fields)


def found(rule: Rule, tensors: Weights, context: Context | None = None, **header: Any) -> list[Finding]:
    return list(rule.check(summary(tensors, **header), context or Context(expected=expected(weights()))))


def said(findings: Iterable[Finding]) -> list[str]:
    return [str(finding) for finding in findings]
