"""The page of faults says what happened: a fault that was missed is missed, a server that did not start misses none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.faults.catalogue import Fault
from tests.faults.report import Report, cell, page


def report(*phases: tuple[str, str, str], rule: str = "COV") -> Any:
    """Of a test that shows row 1: (phase, outcome, what was said) of each phase."""
    marker = SimpleNamespace(kwargs={"place": "stream", "rule": rule}, args=(1,))
    item = SimpleNamespace(nodeid="test", iter_markers=lambda _: [marker])
    made = Report()
    made.pytest_collection_finish(SimpleNamespace(items=[item]))
    for when, outcome, said in phases:
        properties = [("said", said)] if said else []
        made.pytest_runtest_logreport(
            SimpleNamespace(
                nodeid="test", duration=1.0, when=when, user_properties=properties,
                passed=outcome == "passed", failed=outcome == "failed",
            )
        )  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("rule", "phases", "outcome", "totals"),
    [
        ("COV", [("call", "passed", "COV x")], "named", "1 were caught, 1 named right, 0 missed"),
        ("COV", [("call", "failed", "SET x")], "misnamed", "1 were caught, 0 named right, 0 missed"),
        ("COV", [("call", "failed", "")], "missed", "0 were caught, 0 named right, 1 missed"),
        ("COV", [("call", "skipped", "")], "missed", "1 missed"),  # as xfail reports
        ("COV", [("setup", "failed", "")], "did not run", "1 tests did not run"),
        ("", [("call", "passed", "")], "quiet", "0 gave a false alarm"),
        ("", [("call", "failed", "SET x")], "false alarm", "1 gave a false alarm"),
    ],
)
def test_what_happened_is_what_is_said(
    rule: str, phases: list[tuple[str, str, str]], outcome: str, totals: str
) -> None:
    text = page(report(*phases, rule=rule), {1: Fault(1, "o/r/1", "a symptom", "yes")})
    assert totals in text
    assert text.splitlines()[-1].split(" | ")[6] == outcome


def test_no_path_and_no_port_of_this_machine_is_kept() -> None:
    said = "SET layer 0 of /tmp/run-0/model at http://127.0.0.1:43145/x never | came"
    assert cell(said) == "`SET layer 0 of model at http://127.0.0.1:30000/x never \\| came`"


def test_a_row_without_a_test_shows_its_reason() -> None:
    text = page(Report(), {9: Fault(9, "o/r/9", "a symptom", "no", "crashes by itself")})
    assert "| not shown | crashes by itself |" in text
