"""What a test of a fault hands to the report: the audit's own sentence, held against what its marker expects."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from tests.faults.report import anywhere

Named = Callable[[Iterable[str]], None]


@pytest.fixture
def named(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> Named:
    """``named(lines)``: what the audit said of the fault that the test's marker `fault` tells of.

    Fails unless a line begins with the marker's `rule` and holds its text `named`. A marker with ``rule=""`` wants
    the audit to be quiet: no line at all, or lines that hold `named` ("not compared") where it gives that.
    """
    [marker] = request.node.iter_markers("fault")
    rule, text = marker.kwargs["rule"], marker.kwargs["named"]

    def check(lines: Iterable[str]) -> None:
        said = [line for line in lines if line]
        right = [line for line in said if line.startswith(rule) and text in anywhere(line)]
        record_property("said", (right or said or [""])[0])
        if rule:
            assert right, f"wanted {rule} … {text}, said was {said}"
        else:
            assert len(right) == len(said), f"wanted nothing else than {text!r}, said was {said}"
            assert bool(said) == bool(text), f"wanted {text!r}, said was {said}"

    return check
