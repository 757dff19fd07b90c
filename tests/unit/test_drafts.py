"""A draft model beside the target: it is asked like the target, and one that says nothing is no agreement."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch
from torch import nn

from bridge_plugins.engines.sglang.client import Reply
from bridge_plugins.engines.sglang.comparison import Comparison, compare
from bridge_plugins.engines.sglang.known import Known
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.layout.probe import find_layout
from bridge_plugins.layout.sources import Source
from tests.unit.engine_in_process import InProcess, Rank, Weights, summary_of

W, NEXT, NORM = "model.layers.0.w", "model.layers.1.w", "model.norm.weight"
SOURCES = [Source(W, (8, 6), "bfloat16"), Source(NEXT, (8, 6), "bfloat16"), Source(NORM, (6,), "bfloat16")]
ALL = slice(None)


class Drafted(InProcess):
    """The target on two ranks, and on each a draft that has the next layer and, once more, the norm."""

    silent = False

    def __init__(self) -> None:
        parts = (slice(0, 4), slice(4, 8))
        super().__init__(SOURCES, [Rank(SOURCES, {"w": (W, rows), "n": (NORM, ALL)}) for rows in parts])
        self.draft = InProcess(
            SOURCES, [Rank(SOURCES, {"next": (NEXT, rows), "n": (NORM, ALL)}) for rows in parts]
        )

    def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:
        told: list[Any] = super().ask(action, reply, **arguments)
        if action == "layers":
            told = [msgspec.structs.replace(one, drafts=1) for one in told]
        if self.silent:
            return told
        drafts: list[Any] = self.draft.ask(action, reply, **arguments)
        return told + [msgspec.structs.replace(one, role="draft") for one in drafts]


def weights(seed: int = 0) -> Weights:
    torch.manual_seed(seed)
    return {source.name: torch.randn(source.shape).to(torch.bfloat16) for source in SOURCES}


@pytest.fixture
def engine() -> Drafted:
    made = Drafted()
    made.load(weights())
    made.draft.load(weights())
    return made


def verdict(engine: Drafted, sent: Weights | None = None) -> Comparison:
    now = summary_of(sent or weights(), "2")
    return compare(now, "http://engine", read_back(engine, now), summary_of(weights(1), "1"))


def test_what_only_the_draft_holds_is_compared(engine: Drafted) -> None:
    found = verdict(engine)
    assert found.consistent, (found.findings, found.not_compared)
    assert found.compared_bytes == found.total_bytes


@pytest.mark.parametrize("name", [NEXT, NORM])
def test_a_draft_that_is_stale_is_named(engine: Drafted, name: str) -> None:
    engine.draft.load({name: weights(1)[name]})
    found = verdict(engine)
    assert found.mismatched == (name,)
    assert f"the draft model of http://engine still serves version 1 of {name}" in str(found.findings[0])


def test_the_target_is_not_excused_by_a_draft(engine: Drafted) -> None:
    engine.load({NORM: weights(1)[NORM]})
    found = verdict(engine)
    assert found.mismatched == (NORM,)
    assert "the draft model" not in str(found.findings[0])


def test_a_draft_that_says_nothing_is_not_compared(engine: Drafted) -> None:
    engine.silent = True
    assert verdict(engine).not_compared == {
        NEXT: "no rank of the engine tells where it lies",
        "draft": "2 of 2 draft models beside the target did not answer",
    }


def test_a_draft_that_the_stream_does_not_carry_is_not_compared(engine: Drafted) -> None:
    found = verdict(engine, {name: weight for name, weight in weights().items() if name != NEXT})
    assert found.not_compared == {NEXT: "draft: the engine serves it, and the stream did not carry it"}


class Borrower(nn.Module):
    """A draft with a layer of its own and the target's embedding."""

    def __init__(self, embedding: nn.Parameter) -> None:
        super().__init__()
        self.own = nn.Parameter(torch.zeros(8, 6, dtype=torch.bfloat16))
        self.embedding = embedding

    def load(self, stream: Any) -> None:
        for name, weight in stream:
            if name == NEXT:
                self.own.data.copy_(weight)


def test_what_a_draft_borrows_must_be_the_targets() -> None:
    target = nn.Embedding(10, 6, dtype=torch.bfloat16)
    draft = Borrower(target.weight)
    known = Known.of(draft, find_layout(draft, draft.load, SOURCES), SOURCES, None, "")
    known.target = target
    assert known.borrowed(draft) == (target.weight.nbytes, {})
    target.weight = nn.Parameter(target.weight.clone())
    nbytes, strange = known.borrowed(draft)
    assert nbytes == 0
    assert strange == {
        "embedding": "no weight of the checkpoint was loaded into it, and it is not the target's"
    }
