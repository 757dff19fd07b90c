"""Run the benchmarks, print a table, and write it where docs/benchmarks.md is made from."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.fingerprint.page import write_page
from benchmarks.fingerprint.report import Report

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fingerprint", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--only", choices=("agreement", "stream", "odd"), help="on a GPU: this group of tables"
    )
    parser.add_argument(
        "--strength", action="store_true", help="count misses of a scaled-down generator instead"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there too")
    parser.add_argument(
        "--keep", action="store_true", help=f"write them to {RESULTS.name}/ and remake the page"
    )
    parser.add_argument(
        "--page", action="store_true", help="only remake docs/benchmarks.md from kept numbers"
    )
    options = parser.parse_args()
    if options.page:
        write_page(RESULTS)
        return
    report = Report.here(options.device)
    name = "strength" if options.strength else options.device
    if options.strength:
        from benchmarks.fingerprint import strength

        strength.run(report)
    elif options.device == "cuda":
        from benchmarks.fingerprint import gpu

        gpu.run(report, options.only)
    else:
        from benchmarks.fingerprint import cpu

        cpu.run(report)
    print(report.text())
    if options.json:
        report.save(options.json)
    if options.keep:
        report.save(RESULTS / f"fingerprint_{name}.json")
        write_page(RESULTS)


if __name__ == "__main__":
    main()
