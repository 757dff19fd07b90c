"""The catalogue of faults and the tests that carry its rows' numbers are in step."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.faults.catalogue import catalogue

TESTS = Path(__file__).parents[1]
WORDS = {"place", "rule", "named"}


def markers() -> list[tuple[str, ast.Call]]:
    """Every ``pytest.mark.fault(…)`` in the tests' sources, with its file and line."""
    return [
        (f"{path.relative_to(TESTS)}:{node.lineno}", node)
        for path in sorted(TESTS.rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.fault"
    ]


def rows(call: ast.Call) -> set[int]:
    return {ast.literal_eval(argument) for argument in call.args}


def test_every_row_has_a_test_or_a_reason_and_not_both() -> None:
    tested = set().union(*(rows(call) for _, call in markers()))
    faults = catalogue()
    assert tested - set(faults) == set(), "no row of the catalogue"
    without = {row for row, fault in faults.items() if not fault.reason}
    assert without - tested == set(), "neither a test nor a reason"
    assert tested - without == set(), "a test, and still a reason"


def test_every_marker_says_where_what_and_how() -> None:
    assert markers()
    short = [at for at, call in markers() if {word.arg for word in call.keywords} != WORDS or not call.args]
    assert short == []


def test_a_fault_that_can_be_caught_is_not_held_to_be_quiet() -> None:
    faults = catalogue()
    for at, call in markers():
        rule = next(ast.literal_eval(word.value) for word in call.keywords if word.arg == "rule")
        verdicts = {faults[row].verdict for row in rows(call)}
        assert rule or verdicts == {"no"}, at
