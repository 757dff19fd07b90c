"""An engine whose ranks are modules in this process: the code that runs in SGLang's processes, without the processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor, nn

from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.engines.sglang.actions import ACTIONS
from bridge_plugins.engines.sglang.client import Engine, Reply
from bridge_plugins.engines.sglang.holders import agree, places
from bridge_plugins.engines.sglang.known import Known
from bridge_plugins.layout.probe import find_layout
from bridge_plugins.layout.sources import Source

Weights = dict[str, Tensor]


class Rank(nn.Module):
    """Holds the slices of the HF tensors that `slices` gives: own name → (HF name, index)."""

    def __init__(self, sources: Sequence[Source], slices: dict[str, tuple[str, Any]]) -> None:
        super().__init__()
        self.slices = slices
        shapes = {source.name: source for source in sources}
        for own, (name, index) in slices.items():
            source = shapes[name]
            whole = torch.zeros(source.shape, dtype=getattr(torch, source.dtype))
            self.register_parameter(own, nn.Parameter(whole[index].clone(), requires_grad=False))

    def load(self, weights: Iterable[tuple[str, Tensor]]) -> None:
        for name, weight in weights:
            for own, (of, index) in self.slices.items():
                if of == name:
                    getattr(self, own).data.copy_(weight[index])


class InProcess(Engine):
    """Answers as a server whose ranks are `ranks`. `change` may alter what each rank tells."""

    def __init__(self, sources: Sequence[Source], ranks: Sequence[Rank]) -> None:
        self.url, self.ranks_held = "http://engine", list(ranks)
        self.asked: list[tuple[str, Any]] = []
        self.change: Callable[[int, Any], Any] = lambda rank, told: told  # noqa: ARG005
        layouts = [find_layout(rank, rank.load, sources) for rank in ranks]
        numbers = {source.name: number for number, source in enumerate(sources)}
        everyones = [places(layout.blocks, numbers) for layout in layouts]
        for number, (rank, layout) in enumerate(zip(ranks, layouts, strict=True)):
            agreement = agree(layout.blocks, number, everyones, sources)
            rank._bridge_known = Known.of(rank, layout, sources, agreement, "agreed")  # type: ignore[assignment]

    def load(self, weights: Weights) -> None:
        for rank in self.ranks_held:
            rank.load((name, weight.clone()) for name, weight in weights.items())

    def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:
        arguments.pop("request", None)
        self.asked.append((action, arguments.get("layers")))
        told = []
        for number, rank in enumerate(self.ranks_held):
            answer = ACTIONS[action](rank, **arguments)
            answer = msgspec.structs.replace(answer, rank=number, world=len(self.ranks_held))
            if action == "layers" and number:
                answer = msgspec.structs.replace(answer, names=[], keys=[])
            answer = self.change(number, answer)
            if answer is not None:
                told.append(msgspec.json.decode(msgspec.json.encode(answer), type=reply))
        return told


def summary_of(weights: Weights, version: str = "1") -> Summary:
    """The trainer's summary of `weights`."""
    audit = WeightAudit("tiny")
    for _ in audit.watch(weights.items()):
        pass
    return audit.finish(version)[0]
