"""What could not be compared is never called equal."""

from __future__ import annotations

import json

import pytest

from bridge_plugins.audit import Header, Record, summarize
from bridge_plugins.audit.comparison import compare
from bridge_plugins.cli import difference_report
from bridge_plugins.cli.differences import Outcome


@pytest.mark.parametrize("as_json", [False, True])
def test_what_could_not_be_compared_is_said(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    served = summarize(Header("m", "", "1"), [Record("a.weight", (2,), "bfloat16", (1, 2), 4)])
    why = {"b.weight": "ranks 1 of the engine did not answer"}
    outcome = Outcome(served, served, compare(served, served), [], why)
    assert not outcome.equal
    difference_report.show(outcome, json=as_json)
    out = capsys.readouterr().out
    if as_json:
        assert json.loads(out)["not_compared"] == why
    else:
        assert "not compared b.weight: ranks 1 of the engine did not answer" in out
        assert out.splitlines()[-1] == "not compared 1 equal, 1 not compared"
