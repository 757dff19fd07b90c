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

- **A stream costs an export more than 2 %.** An add costs the host 7.2 µs, 4.2 µs of it in the driver's launch, and no
  batch can hide that: a tensor must be read before it is handed on. A push of Qwen3-30B-A3B that takes 1.9 s (18,867
  tensors, 102 µs each) would be slowed by 7 %, an export that takes 0.33 s (17.5 µs each) by 40 %.
- **In a real export it was far more.** Four layers of Qwen3-30B-A3B through Megatron Bridge on an H200 that an engine
  shared: 73 ms for 1,575 tensors, and 240 ms audited, 106 µs a tensor more
  (`benchmarks/results/one_gpu_4_layers.json`). What takes the other 99 µs is not known.
- **On one CPU core, all statistics together** run at 0.7 of a plain 64-bit sum; without them at 1.3. Statistics of 8-bit
  and 64-bit elements run at 1.4 to 1.8 GB/s, a transposed store at 0.3 GB/s. Two cores were measured on a busy machine:
  in a run with less load they were at 1.82, and at 1.07 with all statistics.
- **Short rows on a GPU**: rows of 2 words at 0.45 of the read rate, of 4 words at 0.60, a transposed store at 0.53. The
  GPU's tables come from several runs of one day. Long single rows, rows of an odd length and the sums over more than
  1,024 tiles of one tensor were rewritten after their rows here were measured, and agree bit for bit on the GPU.
"""


def write_page(results: Path) -> None:
    """Write the page from every result in a folder."""
    reports = [Report.load(path) for path in sorted(results.glob("fingerprint_*.json"))]
    PAGE.write_text("\n".join([HEAD, *(report.markdown() for report in reports)]).rstrip() + "\n")
