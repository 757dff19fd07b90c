"""An engine that was given two versions of its checkpoint, one after the other, and what it serves then."""

from __future__ import annotations

import torch

from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.engines.sglang.comparison import Comparison, compare
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.layout.sources import read_weights
from tests.engine.model_rank import Sizes
from tests.engine.servers import Servers, fault

Weights = dict[str, torch.Tensor]


def weights_of(servers: Servers, architecture: str, plus: float = 0.0) -> Weights:
    stored = read_weights(servers.checkpoint(architecture))
    return {name: (weight.float() + plus).to(weight.dtype) for name, weight in stored}


def summary_of(weights: Weights, version: str) -> Summary:
    audit = WeightAudit("tiny")
    for _ in audit.watch(weights.items()):
        pass
    return audit.finish(version)[0]


class Old:
    """An engine that serves version 1 of its checkpoint, and has to get version 2."""

    def __init__(
        self, servers: Servers, architecture: str, sizes: Sizes, transport: Transport | None = None
    ) -> None:
        self.engine = servers.engine(architecture, sizes)
        old = weights_of(servers, architecture)
        self.weights = weights_of(servers, architecture, 0.5)
        self.old, self.new = summary_of(old, "1"), summary_of(self.weights, "2")
        fault(self.engine, "disarm")
        push(old.items(), [self.engine], transport=transport)

    def push(self, without: str = "", **options: object) -> None:
        """Send version 2 in small buckets; all of it but names that hold `without`."""
        sent = [item for item in self.weights.items() if not without or without not in item[0]]
        push(sent, [self.engine], **{"bucket_bytes": 50_000, **options})  # type: ignore[arg-type]

    def compare(self) -> Comparison:
        return compare(self.new, self.engine.url, read_back(self.engine, self.new), self.old)

    def said(self) -> list[str]:
        """All that a readback says against it, whatever its address is."""
        found, url = self.compare(), self.engine.url
        return [
            *(
                str(finding).replace(f": {url}: ", ": ").replace(url, "the engine")
                for finding in found.findings
            ),
            *(f"READBACK {name}: not compared, {why}" for name, why in found.not_compared.items()),
        ]


class Pushed(Old):
    """An engine that was just given version 2, and the summaries of it and of what it held before."""

    def __init__(self, servers: Servers, architecture: str, sizes: Sizes, keep: str = "") -> None:
        super().__init__(servers, architecture, sizes)
        if keep:
            fault(self.engine, "keep", path=keep)
        self.push()
