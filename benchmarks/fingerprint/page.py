"""docs/benchmarks.md, from the numbers that were kept."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fingerprint.report import Report

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"

HEAD = """# Benchmarks of the fingerprint

Made by `python -m benchmarks.fingerprint --keep` (`make bench` runs the same without keeping it), from
`benchmarks/results/`. Every ratio is between two rows of one run: rates of different runs and machines
aren't comparable. CPU rows are the best of several passes: on one core in the thread's own time, on more in wall time.
Device rows are the median between device events.
How to read the numbers, and what bounds them, is said in [fingerprint.md](fingerprint.md).
"""


def write_page(results: Path) -> None:
    """Write the page from every result in a folder."""
    reports = [Report.load(path) for path in sorted(results.glob("fingerprint_*.json"))]
    PAGE.write_text("\n".join([HEAD, *(report.markdown() for report in reports)]).rstrip() + "\n")
