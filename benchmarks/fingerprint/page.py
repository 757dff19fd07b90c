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
  batch can hide that: a tensor must be read before it is handed on. In a real run
  ([one GPU](one_gpu.md), 18,867 tensors) an export of 0.56 s was slowed by 38 %, 11 µs a tensor, and a push of 2.8 s,
  whose tensors are read once more on the wire, by 23 %. Rules and roll-up, once a version after the last tensor, took
  another 0.38 s of the host.
- **On one CPU core, all statistics together** run at 0.63 of a plain 64-bit sum; without them at 1.18. Statistics of 8-bit
  and 64-bit elements run at 0.9 to 1.7 GB/s, a transposed store at 0.3 GB/s.
- **Short rows on a GPU**: rows of 2 words at 0.46 of the read rate, of 4 words at 0.62, bytes in rows of 4 words at 0.48,
  8-bit floats at 0.51, a transposed store at 0.55, and a single long row at 0.34.
"""


def write_page(results: Path) -> None:
    """Write the page from every result in a folder."""
    reports = [Report.load(path) for path in sorted(results.glob("fingerprint_*.json"))]
    PAGE.write_text("\n".join([HEAD, *(report.markdown() for report in reports)]).rstrip() + "\n")
