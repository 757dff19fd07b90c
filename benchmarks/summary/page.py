"""The costs in docs/command_line.md, from the numbers that were kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fingerprint.report import Report

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"
BEGIN, END = "<!-- cost: begin -->\n", "<!-- cost: end -->\n"


def write_page(results: Path) -> None:
    """Write the tables of a result between the page's two marks."""
    report = Report.load(results)
    tables = report.markdown().removeprefix(f"## {report.hardware}\n\n")
    before, rest = PAGE.read_text().split(BEGIN)
    _, after = rest.split(END)
    PAGE.write_text(f"{before}{BEGIN}{report.hardware}; {tables.rstrip()}\n{END}{after}")
