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

- **A stream that is read tensor by tensor costs an export far more than 2 %**: 8 µs a tensor on an H200, 6.3 µs of it the
  host's and 4 µs of that the driver's launch, which no batch can hide: a tensor must be read before it is handed on. Where
  the consumer takes buckets (ours does), those are read at once, and 3 µs are left: a fifth of an export that does nothing
  else, and too little to be seen in a push of 18,867 tensors ([one GPU](one_gpu.md)).
- **On one CPU core, all statistics together** run below a plain 64-bit sum (the table has the number), rows of 4 words
  at an eighth of it.
- **Short rows on a GPU**: rows of 2 words at 0.49 of the read rate, of 4 words at 0.66, bytes in rows of 4 words at 0.72,
  a transposed store at 0.58, rows of odd lengths at 0.69, and a single long row at 0.36. 8-bit floats are at 0.78.
- **One fault of ours until 2026-12-01**: on CUDA's default stream, what the tiles of a *stream* had found was added up
  without waiting for them, so that the last tensors before a read could get numbers of others. Tables were not concerned.
  The rows of agreement below have a run on a busy stream since, which fails with that fault.
"""


def write_page(results: Path) -> None:
    """Write the page from every result in a folder."""
    reports = [Report.load(path) for path in sorted(results.glob("fingerprint_*.json"))]
    PAGE.write_text("\n".join([HEAD, *(report.markdown() for report in reports)]).rstrip() + "\n")
