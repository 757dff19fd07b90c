"""Putting the parts of an engine's ranks together: sums, replicas, gaps, and ranks that do not answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.engines.sglang.client import Engine, Reply
from bridge_plugins.engines.sglang.readback import Comparison, compare, read_back
from bridge_plugins.fingerprint import Box, Fingerprint, fingerprint

WEIGHT = torch.randn(8, 6).to(torch.bfloat16)
NORM = torch.randn(6).to(torch.bfloat16)
W, N = "model.layers.2.w", "model.norm.weight"


class Replies(Engine):
    """An engine whose ranks' replies are given: what a reply may hold is the subject here, not who sent it."""

    def __init__(self, replies: list[dict[str, Any]]) -> None:
        self.url, self.replies = "http://engine", replies

    def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:  # noqa: ARG002
        return [msgspec.convert(given, reply) for given in self.replies]


def summary(weight: torch.Tensor = WEIGHT, version: str = "1") -> Summary:
    audit = WeightAudit("tiny")
    for _ in audit.watch([(W, weight), (N, NORM)]):
        pass
    return audit.finish(version)[0]


def record(taken: Fingerprint, **changed: Any) -> dict[str, Any]:
    boxes = [[*box.size, *box.offset, *box.stride] for box in taken.coverage.boxes]
    return {"lanes": list(taken.lanes), "boxes": boxes, "lossy": 0, "dtype": "bfloat16", **changed}


def rank(
    number: int, rows: slice, weight: torch.Tensor = WEIGHT, norm: torch.Tensor = NORM
) -> dict[str, Any]:
    part = fingerprint(weight[rows], row_offset=rows.start)
    return {
        "rank": number, "world": 2, "untold": {},
        "tensors": {W: [record(part)], N: [record(fingerprint(norm))]},
    }  # fmt: skip


def verdict(*replies: dict[str, Any], previous: Summary | None = None) -> Comparison:
    now = summary()
    return compare(now, "http://engine", read_back(Replies(list(replies)), now), previous)


TOP, BOTTOM = slice(0, 5), slice(5, 8)


def test_parts_and_replicas_make_the_whole() -> None:
    both = verdict(rank(0, TOP), rank(1, BOTTOM))
    assert both.consistent
    assert both.compared_bytes == both.total_bytes == WEIGHT.nbytes + NORM.nbytes


def test_one_replica_that_differs_is_a_mismatch() -> None:
    assert verdict(rank(0, TOP), rank(1, BOTTOM, norm=NORM + 1)).mismatched == (N,)
    assert verdict(rank(0, TOP, norm=NORM + 1), rank(1, BOTTOM)).mismatched == (N,)


def test_a_replica_of_zeros_is_a_mismatch() -> None:
    # Its fingerprint is 0: a sum over the variants would hide it.
    assert verdict(rank(0, TOP), rank(1, BOTTOM, norm=torch.zeros_like(NORM))).mismatched == (N,)


def test_a_second_copy_in_one_process_that_differs_is_a_mismatch() -> None:
    replies = [rank(0, TOP), rank(1, BOTTOM)]
    replies[1]["tensors"][N].append(record(fingerprint(NORM)))
    assert verdict(*replies).consistent
    replies[1]["tensors"][N][1] = record(fingerprint(NORM * 2))
    assert verdict(*replies).mismatched == (N,)


def test_a_gap_and_an_overlap_are_not_compared() -> None:
    for rows in (slice(6, 8), slice(4, 8)):
        found = verdict(rank(0, TOP), rank(1, rows))
        assert not found.consistent
        assert "incompletely" in found.not_compared[W]


def test_a_rank_that_does_not_answer_leaves_nothing_compared() -> None:
    assert "ranks 1 of" in verdict(rank(0, slice(0, 8))).not_compared[N]
    assert len(verdict().not_compared) == 2


def test_what_the_engine_could_not_tell_says_why() -> None:
    replies = [rank(0, TOP), rank(1, BOTTOM)]
    for reply in replies:
        del reply["tensors"][W]
    assert "no rank" in verdict(*replies).not_compared[W]
    replies[0]["untold"] = {W: "dtype int8 can't carry a code"}
    assert "int8" in verdict(*replies).not_compared[W]


@pytest.mark.parametrize(
    ("changed", "said"), [({"lossy": 3}, "3 elements"), ({"dtype": "float16"}, "float16")]
)
def test_what_is_held_otherwise_is_not_compared(changed: dict[str, Any], said: str) -> None:
    replies = [rank(0, TOP), rank(1, BOTTOM)]
    replies[0]["tensors"][W][0].update(changed)
    assert said in verdict(*replies).not_compared[W]


def test_what_the_stream_left_out_is_not_compared() -> None:
    replies = [rank(0, TOP), rank(1, BOTTOM)]
    replies[1]["tensors"]["lm_head.weight"] = [record(fingerprint(NORM))]
    assert verdict(*replies).not_compared == {
        "lm_head.weight": "the engine serves it, and the stream did not carry it"
    }


def test_what_the_engine_computes_is_not_compared_on_any_rank() -> None:
    replies = [
        rank(0, TOP),
        {**rank(1, BOTTOM), "derived": {"layers.0.w_vc": "24 of 24 elements are computed"}},
    ]
    found = verdict(*replies)
    assert not found.consistent
    assert list(found.not_compared) == ["layers.0.w_vc"]


def test_a_stale_tensor_is_called_stale() -> None:
    old = summary(weight=WEIGHT + 1, version="old")
    found = verdict(rank(0, TOP, weight=WEIGHT + 1), rank(1, BOTTOM, weight=WEIGHT + 1), previous=old)
    assert found.mismatched == (W,)
    assert "READBACK layer 2: http://engine still serves version old of 1 tensors" in str(found.findings[0])


def test_a_stride_survives_the_reply() -> None:
    halves = [fingerprint(WEIGHT[s::2], at=Box((4, 6), (s, 0), (2, 1))) for s in (0, 1)]  # type: ignore[arg-type]
    replies = [rank(0, TOP), rank(1, BOTTOM)]
    for reply, half in zip(replies, halves, strict=True):
        reply["tensors"][W] = [record(half)]
    assert verdict(*replies).consistent
