"""``bridge-audit`` as a user runs it, timed: ``python -m benchmarks.summary [--gb 3 12] [--folder MODEL] [--keep]``.

Beside a folder's summary, in the same run, xxh3-128 of the same files: by the tool ``xxh128sum`` if it is installed, and in
Python, from mapped files and in blocks as the tool reads them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.fingerprint.report import Report
from benchmarks.summary import checksums
from benchmarks.summary.model import make_folder, make_summary
from benchmarks.summary.page import write_page
from benchmarks.summary.timing import Taken, best, call, command, memory

RESULTS = Path(__file__).parents[1] / "results" / "summary_cpu.json"
ROUNDS = 5
AUDIT = (sys.executable, "-m", "bridge_plugins.cli", "audit")


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__)
    parser.add_argument("--gb", type=float, nargs="+", default=[3, 12], help="of the folders that are made")
    parser.add_argument("--folder", type=Path, help="a model of your own instead")
    parser.add_argument("--cold", action="store_true", help="the files are not in the page cache")
    parser.add_argument(
        "--keep", action="store_true", help="keep the numbers, and remake docs/command_line.md"
    )
    options = parser.parse_args()
    report = Report.here("cpu")
    with tempfile.TemporaryDirectory() as temporary:
        measure_small(report, Path(temporary))
        if options.folder:
            measure(report, options.folder, cold=options.cold)
        for size in [] if options.folder else options.gb:
            folder = make_folder(Path(temporary) / "model", int(size * 1e9))
            measure(report, folder, cold=options.cold)
            shutil.rmtree(folder)
    print(report.text())
    if options.keep:
        report.save(RESULTS)
        write_page(RESULTS)


def measure_small(report: Report, temporary: Path) -> None:
    """What reads no weights to speak of."""
    small = make_folder(temporary / "small", 1_000_000)
    large = make_summary()
    large.write(temporary / "a.json")
    large.write(temporary / "b.json")
    make_summary(exchanged=(5, 29)).write(temporary / "c.json")
    diff = [*AUDIT, "diff", str(temporary / "a.json")]
    commands = {
        "--help": [*AUDIT, "--help"],
        "summary of a folder of 1 MB": [*AUDIT, "summary", str(small)],
        f"diff of two summaries of {len(large.records):,} tensors": [*diff, str(temporary / "b.json")],
        "the same, two layers exchanged": [*diff, str(temporary / "c.json")],
    }
    acts = {what: command(*words) for what, words in commands.items()}
    table = report.table("To start, and summaries alone")
    for what, taken in best(acts, ROUNDS, lambda: None).items():
        table.add(what, taken.seconds, "s", None, _used(taken, commands[what]))


def measure(report: Report, folder: Path, *, cold: bool) -> None:
    """A folder's summary, beside checksums of its files."""
    files = sorted(folder.glob("*.safetensors"))
    nbytes = sum(file.stat().st_size for file in files)
    acts: dict[str, Callable[[], Taken]] = {}
    if tool := shutil.which("xxh128sum"):
        acts["xxh128sum"] = command(tool, *map(str, files))
    acts["xxh3-128 in Python, read 64 KiB at a time, as xxh128sum does"] = call(
        lambda: checksums.in_blocks(files)
    )
    acts["xxh3-128 in Python, files mapped"] = call(lambda: checksums.mapped(files))
    audit = [*AUDIT, "summary", str(folder)]
    acts["bridge-audit summary"] = command(*audit)
    taken = best(acts, ROUNDS, lambda: _evict(files) if cold else None)
    where = "not in" if cold else "in"
    table = report.table(f"A folder of {nbytes / 1e9:.1f} GB, {where} the page cache", next(iter(acts)))
    base = next(iter(taken.values())).seconds
    for what, one in taken.items():
        used = _used(one, audit if what == "bridge-audit summary" else [])
        table.add(
            what, one.seconds, "s", one.seconds / base, f"{nbytes / one.seconds / 1e9:.1f} GB/s, {used}"
        )


def _used(taken: Taken, words: Sequence[str]) -> str:
    own = f", {memory(*words) / 1e9:.2f} GB of memory of its own" if words else ""
    return f"{taken.cpu:.2f} s of CPU{own}"


def _evict(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
