"""Read an HF folder as a user does, and time it: ``python -m benchmarks.summary [--gb 3] [--folder MODEL] [--keep]``.

Beside it, in the same run, xxh3-128 of the same files: by the tool ``xxh128sum`` if it is installed, and in Python.
"""

from __future__ import annotations

import argparse
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import xxhash

from benchmarks.fingerprint.report import Report, Table
from benchmarks.summary.model import make_folder

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS = 5


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__)
    parser.add_argument("--gb", type=float, default=3, help="of the folder that is made")
    parser.add_argument("--folder", type=Path, help="a model of your own instead")
    parser.add_argument("--cold", action="store_true", help="the files are not in the page cache")
    parser.add_argument("--keep", action="store_true", help=f"write the numbers to {RESULTS.name}/")
    options = parser.parse_args()
    report = Report.here("cpu")
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or make_folder(Path(temporary) / "model", int(options.gb * 1e9))
        measure(report, folder, cold=options.cold)
    print(report.text())
    if options.keep:
        report.save(RESULTS / "summary_cpu.json")


def measure(report: Report, folder: Path, *, cold: bool) -> None:
    """The best of several rounds, each of all commands in turn: what disturbs one disturbs its neighbours."""
    files = sorted(folder.glob("*.safetensors"))
    nbytes = sum(file.stat().st_size for file in files)
    audit = [sys.executable, "-m", "bridge_plugins.cli", "audit", "summary"]
    acts: dict[str, Callable[[], object]] = {}
    if tool := shutil.which("xxh128sum"):
        acts["xxh128sum"] = lambda: _run([tool, *map(str, files)])
    acts["xxh3-128 in Python, files mapped"] = lambda: [_checksum(file) for file in files]
    acts["bridge-audit summary"] = lambda: _run([*audit, str(folder)])
    with tempfile.TemporaryDirectory() as temporary:
        small = make_folder(Path(temporary) / "model", 1_000_000)
        acts["of that, to start: a folder of 1 MB"] = lambda: _run([*audit, str(small)])
        best: dict[str, tuple[float, float]] = {}
        for _ in range(ROUNDS):
            for what, act in acts.items():
                if cold:
                    _evict(files)
                taken = _timed(act)
                best[what] = min(best.get(what, taken), taken)
    table = report.table(
        f"A folder of {nbytes / 1e9:.2f} GB, {'not in' if cold else 'in'} the page cache", next(iter(acts))
    )
    _rows(table, best, nbytes)


def _rows(table: Table, best: dict[str, tuple[float, float]], nbytes: int) -> None:
    base = next(iter(best.values()))[0]
    for what, (seconds, cpu) in best.items():
        rate = "" if "to start" in what else f"{nbytes / seconds / 1e9:.1f} GB/s, "
        table.add(what, seconds, "s", seconds / base, f"{rate}{cpu:.2f} s of CPU")
    seconds, cpu = (
        whole - start
        for whole, start in zip(
            best["bridge-audit summary"], best["of that, to start: a folder of 1 MB"], strict=True
        )
    )
    note = f"{nbytes / seconds / 1e9:.1f} GB/s, {cpu:.2f} s of CPU"
    table.add("… and to read", seconds, "s", seconds / base, note)


def _timed(act: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the clock, and of CPU, children included."""
    started, cpu = time.perf_counter(), sum(os.times()[:4])
    act()
    return time.perf_counter() - started, sum(os.times()[:4]) - cpu


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603 (its own command lines)


def _checksum(file: Path) -> bytes:
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, prot=mmap.PROT_READ) as mapped:
        return xxhash.xxh3_128(mapped).digest()


def _evict(files: list[Path]) -> None:
    for file in files:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


if __name__ == "__main__":
    main()
