"""How far two sides are apart: laws of the numbers, what is a finding, and the file of a trainer's scores."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_plugins.errors import UsageError
from bridge_plugins.parity.metrics import compare
from bridge_plugins.parity.report import ParityReport
from bridge_plugins.parity.scores import Scored, Scores, read_scores
from tests.unit.cli.command import audit

LOGPROBS = st.floats(-30, 0)


@st.composite
def both_sides(draw: st.DrawFn) -> tuple[list[Scored], list[Scored]]:
    """A few sequences as an engine and as a trainer score them."""
    engine, trainer = [], []
    for _ in range(draw(st.integers(1, 4))):
        length = draw(st.integers(2, 6))
        tokens, prompt = tuple(range(length)), draw(st.integers(1, length))
        for side in (engine, trainer):
            logprobs = draw(st.lists(LOGPROBS, min_size=length - 1, max_size=length - 1))
            greedy = draw(st.lists(st.integers(0, 2), min_size=length - 1, max_size=length - 1))
            side.append(Scored(tokens, prompt, tuple(logprobs), tuple(greedy), ("7",)))
    return engine, trainer


@given(both_sides())
def test_numbers_keep_their_order(sides: tuple[list[Scored], list[Scored]]) -> None:
    found = compare(*sides)
    assert 0 <= found.mean_abs <= found.max_abs * (1 + 1e-12)
    assert found.kl_k3 >= 0
    assert 0 <= found.greedy <= 1
    assert found.tokens == sum(len(one.logprobs) for one in sides[0])


@given(both_sides())
def test_a_side_agrees_with_itself_exactly(sides: tuple[list[Scored], list[Scored]]) -> None:
    found = compare(sides[0], sides[0])
    assert (found.max_abs, found.mean_abs, found.kl_k1, found.kl_k3, found.greedy) == (0, 0, 0, 0, 1)
    assert list(found.findings("u", 0.0, "7")) == []


@given(both_sides(), st.randoms())
def test_the_order_of_sequences_does_not_matter(
    sides: tuple[list[Scored], list[Scored]], random: object
) -> None:
    pairs = list(zip(*sides, strict=True))
    random.shuffle(pairs)  # type: ignore[attr-defined]
    one, other = compare(*sides), compare([a for a, _ in pairs], [b for _, b in pairs])
    assert one.max_abs == other.max_abs
    assert one.mean_abs == pytest.approx(other.mean_abs)
    assert one.kl_k1 == pytest.approx(other.kl_k1, abs=1e-9)
    assert one.greedy == pytest.approx(other.greedy)


@given(both_sides(), st.sampled_from([-0.25, 0.5]))
def test_a_trainer_that_is_off_by_a_constant(sides: tuple[list[Scored], list[Scored]], off: float) -> None:
    engine, _ = sides
    moved = [
        Scored(
            one.tokens, one.prompt_length, tuple(p + off for p in one.logprobs if p is not None), one.greedy
        )
        for one in engine
    ]
    found = compare(engine, moved)
    assert found.max_abs == pytest.approx(abs(off))
    if any(len(one.tokens) > one.prompt_length for one in engine):
        assert found.kl_k1 == pytest.approx(-off)
        assert found.kl_k3 == pytest.approx(math.expm1(off) - off)


def test_kl_is_of_the_sampled_tokens_and_differences_of_all() -> None:
    engine = [Scored((1, 2, 3, 4), 2, (-1.0, -2.0, -3.0), (1, 2, 3), ("7",))]
    trainer = [Scored((1, 2, 3, 4), 2, (-1.5, -2.0, -3.25), (1, 2, 9))]
    found = compare(engine, trainer)
    assert (found.tokens, found.max_abs, found.mean_abs) == (3, 0.5, 0.25)
    assert found.kl_k1 == pytest.approx(0.125)
    assert found.kl_k3 == pytest.approx((math.exp(-0.25) - 1 + 0.25) / 2)
    assert found.greedy == pytest.approx(2 / 3)


def test_a_nan_is_over_any_limit() -> None:
    engine = [Scored((1, 2, 3), 1, (-1.0, -2.0), (0, 0), ("7",))]
    found = compare(engine, [Scored((1, 2, 3), 1, (None, -2.0), (0, 0))])
    assert math.isnan(found.max_abs)
    assert ParityReport.of("7", {"u": found}, math.inf).word == "findings"


def test_mixed_and_other_versions_are_findings() -> None:
    def served(*versions: str) -> Scored:
        return Scored((1, 2), 1, (0.0,), (2,), versions)

    found = compare([served("7", "8"), served("8")], [served(), served()])
    assert (found.mixed, found.versions) == (1, ("7", "8"))
    report = ParityReport.of("8", {"u": found}, 0.0)
    assert [finding.what.partition(" ")[0] for finding in report.findings] == ["1", "serves"]
    assert ParityReport.of("", {"u": compare([served("8")], [served()])}, 0.0).word == "within the limit"


def test_scores_of_other_tokens_are_refused() -> None:
    with pytest.raises(UsageError, match="different tokens"):
        compare([Scored((1, 2), 1, (0.0,), (2,))], [Scored((1, 3), 1, (0.0,), (2,))])
    with pytest.raises(UsageError, match="no tokens"):
        compare([], [])


def test_a_file_comes_back_and_a_damaged_one_is_refused(tmp_path: Path) -> None:
    scores = Scores("7", (Scored((1, 2, 3), 1, (-1.0, None), (2, 3)),))
    scores.write(tmp_path / "scores")
    assert read_scores(tmp_path / "scores") == scores
    whole = (tmp_path / "scores").read_bytes()
    for damaged in (
        whole[:-5],
        b"\xff",
        whole.replace(b'"schema":1', b'"schema":2'),
        whole.replace(b"[2,3]", b"[2]"),
    ):
        (tmp_path / "scores").write_bytes(damaged)
        with pytest.raises(UsageError, match="is no file of a trainer's scores"):
            read_scores(tmp_path / "scores")
    Scores("7", ()).write(tmp_path / "scores")
    with pytest.raises(UsageError, match="holds no sequence"):
        read_scores(tmp_path / "scores")


def test_what_the_command_can_not_do_is_one_line_and_exit_2(tmp_path: Path) -> None:
    scores, other, nobody = tmp_path / "scores", tmp_path / "summary.json", "http://127.0.0.1:9"
    Scores("1", (Scored((1, 2), 1, (-1.0,), (2,)),)).write(scores)
    other.write_text('{"header": 1}')
    assert "the server is gone" in audit("parity", scores, "--engine", nobody).error
    assert (
        "is for a Hugging Face folder" in audit("parity", scores, "--engine", nobody, "--prompt", "x").error
    )
    both = audit("parity", scores, "--engine", nobody, "--limit", "0", "--contract", "x")
    assert "exclude each other" in both.error
    assert "is no file of a trainer's scores" in audit("parity", other, "--engine", nobody).error
    assert "nowhere can't be read" in audit("parity", tmp_path / "nowhere", "--engine", nobody).error
