"""Public faults on the way of a bucket: the stream and the bucket were right, and the engine reads something else."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch

from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.transports.from_tensor import FromTensor
from bridge_plugins.engines.sglang.wire import LOAD_FORMAT, Bucket
from tests.engine.model_rank import Sizes
from tests.engine.pushed import Old
from tests.engine.servers import Servers
from tests.faults.named import Named

pytestmark = pytest.mark.ci

EXPERTS = ("Qwen3-MoE", Sizes(tp=2, ep=2))


def another_ranks_table(bucket: Bucket) -> Bucket:
    """Cut by the table of a rank that packed its experts the other way round."""
    other = copy.copy(bucket)
    names = {meta.name: meta for meta in bucket.metadata}
    other.metadata = []
    for meta in bucket.metadata:
        partner = meta.name.replace(".experts.2.", ".experts.x.").replace(".experts.3.", ".experts.2.")
        other.metadata.append(copy.copy(meta))
        other.metadata[-1].name = partner.replace(".experts.x.", ".experts.3.")
    assert {meta.name for meta in other.metadata} == set(names)
    return other


def freed(bucket: Bucket) -> Bucket:
    """The sender's memory is given back while the engine still has to read."""
    bucket.bytes.zero_()
    return bucket


class Overlapped:
    """The second half of a buffer is filled with what comes next before it was read."""

    def __init__(self) -> None:
        self.last: torch.Tensor | None = None

    def __call__(self, bucket: Bucket) -> Bucket:
        now = bucket.bytes.clone()
        if self.last is not None:
            half = min(len(now), len(self.last)) // 2
            bucket.bytes[half : 2 * half] = self.last[half : 2 * half]
        self.last = now
        return bucket


class Spoilt(FromTensor):
    """Hands a bucket over, and then something happens to it: to `number`, or to all."""

    def __init__(self, what: Callable[[Bucket], Bucket], number: int | None = None) -> None:
        super().__init__()
        self._what, self._number, self._count = what, number, 0

    def load(self, engine: Engine, packed: Bucket) -> None:
        self._count += 1
        if self._number in (None, self._count):
            payloads = [packed.payload(), self._what(packed).payload()]
        else:
            payloads = [packed.payload() for _ in range(engine.ranks)]
        engine.update_weights_from_tensor(payloads, LOAD_FORMAT)


@pytest.fixture
def old(servers: Servers) -> Old:
    """An engine at version 1."""
    return Old(servers, *EXPERTS)


@pytest.mark.fault(
    78, place="transport", rule="READBACK", named="layers 0-1 (ranks 1): experts 2 and 3 are exchanged"
)
def test_a_buffer_that_is_cut_by_another_ranks_table(old: Old, named: Named) -> None:
    old.push(bucket_bytes=1 << 30, transport=Spoilt(another_ranks_table))
    named(old.said())


@pytest.mark.fault(
    81,
    place="transport",
    rule="READBACK",
    named="layer 0: 10 tensors (model.layers.0.mlp.experts.2.gate_proj.weight, …) are all zeros",
)
def test_a_buffer_that_is_freed_before_it_is_read(old: Old, named: Named) -> None:
    old.push(transport=Spoilt(freed, 4))
    named(old.said())


@pytest.mark.fault(
    83, place="transport", rule="READBACK", named="27 tensors (model.embed_tokens.weight, …) are unlike every"
)
def test_a_buffer_that_is_filled_again_before_it_is_read(old: Old, named: Named) -> None:
    old.push(transport=Spoilt(Overlapped()))
    assert 0 < len(old.compare().mismatched) < len(old.new.records)
    named(old.said())
