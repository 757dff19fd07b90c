"""Trainer against engine: layers first, replicas, gaps, parts that overlap, and ranks that do not answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import torch

from bridge_plugins.audit import Summary
from bridge_plugins.engines.sglang import readback
from bridge_plugins.engines.sglang.client import Reply
from bridge_plugins.engines.sglang.comparison import Comparison, compare
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.layout.sources import Source
from tests.unit.engine_in_process import InProcess, Rank, Weights, summary_of

W, V, N, E, H = (
    "model.layers.2.w", "model.layers.3.w", "model.norm.weight", "model.embed_tokens.weight", "lm_head.weight",
)  # fmt: skip
SOURCES = [
    Source(W, (8, 6), "bfloat16"),
    Source(V, (8, 6), "bfloat16"),
    Source(N, (6,), "bfloat16"),
    Source(E, (10, 6), "bfloat16"),
]
ALL = slice(None)
TOP, BOTTOM = slice(0, 5), slice(5, 8)


def weights(seed: int = 0) -> Weights:
    torch.manual_seed(seed)
    return {source.name: torch.randn(source.shape).to(torch.bfloat16) for source in SOURCES}


def rank(rows: slice, vocabulary: slice, **more: tuple[str, Any]) -> Rank:
    slices = {"w": (W, rows), "v": (V, rows), "n": (N, ALL), "e": (E, vocabulary)}
    return Rank(SOURCES, slices | more)


@pytest.fixture
def engine() -> InProcess:
    """Two ranks: w and v by rows, a vocabulary that both hold whole and one holds a part of once more, a norm on both."""
    made = InProcess(SOURCES, [rank(TOP, ALL), rank(BOTTOM, ALL, head=(E, slice(4, 10)))])
    made.load(weights())
    return made


def held(engine: InProcess, number: int, own: str) -> torch.Tensor:
    return getattr(engine.ranks_held[number], own).data  # type: ignore[no-any-return]


def verdict(engine: InProcess, sent: Weights | None = None, previous: Summary | None = None) -> Comparison:
    now = summary_of(sent or weights())
    return compare(now, "http://engine", read_back(engine, now), previous)


def test_what_is_served_as_sent_is_proved_by_layers_alone(engine: InProcess) -> None:
    found = verdict(engine)
    assert found.consistent
    assert found.compared_bytes == found.total_bytes == sum(w.nbytes for w in weights().values())
    assert (
        found.engine_compared
        == found.engine_served
        == sum(p.nbytes for rank in engine.ranks_held for p in rank.parameters())
    )
    assert engine.asked == [("layers", None)]


def flip(tensor: torch.Tensor) -> None:
    tensor.view(torch.int16).flatten()[-1] ^= 1


@pytest.mark.parametrize(
    ("number", "own", "name", "layer", "ranks"),
    [
        (0, "w", W, "model.layers.2", ()),  # whose part is wrong, a sum doesn't say
        (0, "n", N, "outside layers", (0,)),  # the primary holder
        (1, "n", N, "outside layers", (1,)),  # a replica
        (1, "e", E, "outside layers", (1,)),
        (0, "e", E, "outside layers", (0,)),
        (1, "head", E, "outside layers", (1,)),  # a part of a copy, held once more
    ],
)
def test_one_bit_in_any_copy_on_any_rank_is_found(
    engine: InProcess, number: int, own: str, name: str, layer: str, ranks: tuple[int, ...]
) -> None:
    flip(held(engine, number, own))
    found = verdict(engine)
    assert found.mismatched == (name,)
    assert engine.asked == [("layers", None), ("records", [layer])]
    assert found.findings[0].ranks == ranks


def test_replicas_that_are_wrong_in_the_same_way_do_not_cancel(engine: InProcess) -> None:
    for number in (0, 1):
        flip(held(engine, number, "n"))
    assert verdict(engine).mismatched == (N,)


def test_a_replica_of_zeros_is_a_mismatch(engine: InProcess) -> None:
    held(engine, 1, "n").zero_()
    assert verdict(engine).mismatched == (N,)


def test_two_layers_exchanged_are_named(engine: InProcess) -> None:
    now = weights()
    engine.load({W: now[V], V: now[W]})
    found = verdict(engine)
    assert set(found.mismatched) == {W, V}
    assert "layers 2 and 3: http://engine: are exchanged" in str(found.findings[0])


def test_tensors_of_zeros_must_have_their_names_and_shapes() -> None:
    # Their lanes are zero, whatever they are called.
    zeros = {name: torch.zeros_like(weight) for name, weight in weights().items()}
    engine = InProcess(SOURCES, [rank(ALL, ALL)])
    assert verdict(engine, zeros).consistent
    renamed = {name.replace("layers.2.w", "layers.2.x"): weight for name, weight in zeros.items()}
    found = verdict(engine, renamed)
    assert not found.consistent
    assert set(found.not_compared) == {W, "model.layers.2.x"}


def test_a_part_that_no_rank_holds_is_not_compared() -> None:
    for rows in (slice(6, 8), slice(0, 0)):
        engine = InProcess(SOURCES, [rank(TOP, ALL), rank(rows, ALL)])
        engine.load(weights())
        found = verdict(engine)
        assert not found.consistent
        assert set(found.not_compared) == {W, V}
        assert "incompletely" in found.not_compared[W]


def test_parts_that_overlap_are_cut_at_each_others_ends() -> None:
    engine = InProcess(SOURCES, [rank(TOP, slice(0, 7)), rank(slice(3, 8), slice(2, 10))])
    engine.load(weights())
    assert verdict(engine).consistent
    assert engine.asked == [("layers", None)]
    held(engine, 1, "w")[0, 0] += 1  # row 3, which rank 0 holds too
    found = verdict(engine)
    assert not found.consistent


def test_a_rank_that_does_not_answer_leaves_nothing_compared(engine: InProcess) -> None:
    engine.change = lambda number, told: None if number else told
    assert "ranks 1 of" in verdict(engine).not_compared[N]
    engine.change = lambda number, told: None  # noqa: ARG005
    assert len(verdict(engine).not_compared) == len(SOURCES)


def test_a_rank_that_answers_the_first_time_alone_leaves_its_layers_open(engine: InProcess) -> None:
    flip(held(engine, 1, "w"))
    engine.change = lambda number, told: None if number and hasattr(told, "tensors") else told
    found = verdict(engine)
    assert set(found.not_compared) == {W}
    assert not found.consistent


@pytest.mark.parametrize("field", ["agreed", "digests"])
def test_ranks_that_agreed_on_nothing_are_asked_for_every_tensor(engine: InProcess, field: str) -> None:
    nothing: Any = "" if field == "agreed" else b""

    def change(number: int, told: Any) -> Any:
        return msgspec.structs.replace(told, **{field: nothing}) if number and hasattr(told, field) else told

    engine.change = change
    assert verdict(engine).consistent
    assert engine.asked == [("layers", None), ("records", None)]
    flip(held(engine, 1, "n"))
    assert verdict(engine).mismatched == (N,)


def test_what_is_held_otherwise_is_not_compared(engine: InProcess) -> None:
    sent = {name: weight.float() for name, weight in weights().items()}
    found = verdict(engine, sent)
    assert found.not_compared == dict.fromkeys(sent, "the engine holds bfloat16 of float32")


def test_values_that_the_stream_could_not_have_sent_are_found() -> None:
    wide = [Source(N, (6,), "float32")]
    engine = InProcess(wide, [Rank(wide, {"n": (N, ALL)})])
    sent = {N: weights()[N]}
    engine.load({N: sent[N].float()})
    assert verdict(engine, sent).consistent
    held(engine, 0, "n")[0] = 1 / 3
    assert "1 elements are held with other values" in verdict(engine, sent).not_compared[N]


def test_what_the_stream_left_out_is_not_compared(engine: InProcess) -> None:
    sent = weights()
    del sent[N]
    assert verdict(engine, sent).not_compared == {N: "the engine serves it, and the stream did not carry it"}


def test_what_the_engine_computes_is_said_with_its_reason(engine: InProcess) -> None:
    engine.ranks_held[1]._bridge_known.layout.derived["layers.0.w_vc"] = "24 of 24 elements are computed"  # type: ignore[union-attr, operator]
    found = verdict(engine)
    assert not found.consistent
    assert found.not_compared == {"layers.0.w_vc": "24 of 24 elements are computed"}
    assert engine.asked == [("layers", None), ("records", [])]


class PlusOne(Rank):
    """Keeps its norm plus one beside it."""

    def load(self, weights: Any) -> None:
        super().load(weights)
        self.more = self.n.detach() + 1


def test_what_is_a_constant_more_than_a_tensor_is_held_against_it() -> None:
    engine = InProcess(SOURCES[2:3], [PlusOne(SOURCES[2:3], {"n": (N, ALL)})])
    sent = {N: weights()[N]}
    engine.load(sent)
    assert verdict(engine, sent).consistent
    engine.ranks_held[0].more -= 0.5  # type: ignore[operator, assignment]
    assert verdict(engine, sent).not_compared == {"more": "it is not n plus 1: it was not computed again"}


def test_a_stale_tensor_is_called_stale(engine: InProcess) -> None:
    old = summary_of(weights(seed=1), version="old")
    engine.load({W: weights(seed=1)[W]})
    found = verdict(engine, previous=old)
    assert found.mismatched == (W,)
    assert "READBACK layer 2" in str(found.findings[0])
    assert "http://engine still serves version old of model." in str(found.findings[0])


def test_every_copy_of_the_model_behind_one_server_must_be_right(engine: InProcess) -> None:
    other = InProcess(SOURCES, [rank(TOP, ALL), rank(BOTTOM, ALL)])
    other.load(weights())
    ask = engine.ask
    engine.ask = lambda *given, **more: ask(*given, **more) + other.ask(*given, **more)  # type: ignore[method-assign]
    assert verdict(engine).consistent
    flip(held(other, 1, "w"))
    assert verdict(engine).mismatched == (W,)


class Staged(InProcess):
    """Two pipeline stages: the server passes on the first one's answers, the other's come when they are fetched."""

    left: dict[str, str] | None = None
    polls = 0

    def ask(self, action: str, reply: type[Reply], **arguments: Any) -> list[Reply]:
        if action == "collect":
            self.polls += 1
            if self.left is None or arguments["of"] not in self.left or self.polls == 1:
                return [reply(replies={})]
            return [msgspec.convert({"replies": {1: self.left[arguments["of"]]}}, reply)]
        first, second = (
            msgspec.structs.replace(told, stages=2) for told in super().ask(action, reply, **arguments)
        )
        if self.left is not None:
            self.left[arguments["request"]] = msgspec.json.encode(second).decode()
        return [first]


def staged(answering: bool) -> Staged:
    made = Staged(SOURCES, [rank(TOP, ALL), rank(BOTTOM, ALL)])
    made.load(weights())
    made.left = {} if answering else None
    return made


def test_answers_of_other_pipeline_stages_are_fetched() -> None:
    engine = staged(answering=True)
    assert verdict(engine).consistent
    assert engine.polls == 2
    flip(held(engine, 1, "w"))
    assert verdict(engine).mismatched == (W,)


def test_a_pipeline_stage_that_never_answers_leaves_nothing_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readback, "STAGE_SECONDS", 0.0)
    assert "ranks 1 of" in verdict(staged(answering=False)).not_compared[N]


def test_the_first_reply_stays_small() -> None:
    sources = [Source(f"model.layers.{layer}.w", (4,), "bfloat16") for layer in range(61)]
    slices = {f"w{layer}": (f"model.layers.{layer}.w", ALL) for layer in range(61)}
    engine = InProcess(sources, [Rank(sources, slices) for _ in range(32)])
    sizes: list[int] = []

    def count(_: int, told: Any) -> Any:
        sizes.append(len(msgspec.json.encode(told)))
        return told

    engine.change = count
    sent = {source.name: torch.randn(4).to(torch.bfloat16) for source in sources}
    engine.load(sent)
    assert verdict(engine, sent).consistent
    # What SGLang puts around a rank's reply is some 300 bytes.
    assert sum(sizes) + 32 * 300 < 100_000
