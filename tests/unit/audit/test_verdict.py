"""The last word says no more than is known."""

from __future__ import annotations

import pytest
import torch

from bridge_plugins.audit import Finding, WeightAudit
from bridge_plugins.audit.verdict import Verdict


def verdict(
    engines: int = 1, mismatched: int = 0, not_compared: int = 0, findings: int = 0, tensors: int = 2
) -> Verdict:
    audit = WeightAudit("tiny")
    for number in range(tensors):
        for _ in audit.watch([(f"model.layers.{n}.w", torch.ones(1)) for n in range(number + 1)]):
            pass
    summary = audit.finish("7")[0]
    found = [Finding("SET", "layer 1", "missing")] * findings
    return Verdict.of(summary, found, engines=engines, mismatched=mismatched, not_compared=not_compared)


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({}, "consistent"),
        ({"engines": 0}, "trainer side consistent"),
        ({"tensors": 0}, "not compared"),
        ({"not_compared": 1}, "not compared"),
        ({"mismatched": 1}, "findings"),
        ({"findings": 1}, "findings"),
        ({"findings": 1, "engines": 0}, "findings"),
        ({"mismatched": 1, "not_compared": 1}, "findings"),
    ],
)
def test_word(facts: dict[str, int], word: str) -> None:
    assert verdict(**facts).word == word
    assert verdict(**facts).exit_status == (0 if word == "consistent" else 1)


def test_line() -> None:
    line = "VERDICT consistent  version=7  tensors=2 layers=2 mismatched=0 not_compared=0"
    assert str(verdict()) == line


def test_an_info_finding_is_told_and_stops_nothing() -> None:
    for severity, word in (("info", "consistent"), ("warning", "findings"), ("error", "findings")):
        found = [Finding("DELTA", "model", "stands still", severity=severity)]  # type: ignore[arg-type]
        said = Verdict("7", 2, 2, 1, 0, 0, tuple(found))
        assert said.word == word, severity
        assert said.findings == tuple(found)
