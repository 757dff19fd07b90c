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

## What disappoints

- **A stream costs an export more than 2 %.** An add costs the host 6.4 µs, 4.2 µs of it in the driver's launch, and no
  batch can hide that: a tensor must be read before it is handed on. In a real run ([one GPU](one_gpu.md), 18,867 tensors)
  an export of 0.49 s was slowed by 0.21 s, 11 µs a tensor, and a push of 2.45 s by 8 % at best, 20 % in the median. Rules
  and roll-up, once a version after the last tensor, took another 0.04 s of the host.
- **On one CPU core, all statistics together** run well below a plain 64-bit sum (the table has the number), rows of 4 words
  at an eighth of it.
- **Short rows on a GPU**: rows of 2 words at 0.47 of the read rate, of 4 words at 0.63, bytes in rows of 4 words at 0.68,
  a transposed store at 0.54, rows of odd lengths at 0.64, and a single long row at 0.35. 8-bit floats are at 0.75.

The device's rows below are from a run before 8-bit formats and short rows were made faster; the numbers of this list are
from trees that were measured since, on the same kind of GPU ([fingerprint.md](fingerprint.md) has more of them).
"""


def write_page(results: Path) -> None:
    """Write the page from every result in a folder."""
    reports = [Report.load(path) for path in sorted(results.glob("fingerprint_*.json"))]
    PAGE.write_text("\n".join([HEAD, *(report.markdown() for report in reports)]).rstrip() + "\n")
