"""What a benchmark yields: tables of measurements, on the terminal, as JSON, and as Markdown."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from datetime import date
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

_PACKAGES = ("torch", "triton", "numba", "numpy", "xxhash", "blake3")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement; `ratio` is to the table's yardstick, from the same run."""

    what: str
    value: float
    unit: str
    ratio: float | None = None
    note: str = ""


@dataclass(slots=True)
class Table:
    """Measurements that belong together. `yardstick` says what the ratios are to."""

    title: str
    yardstick: str = ""
    rows: list[Row] = field(default_factory=list)

    def add(self, what: str, value: float, unit: str, ratio: float | None = None, note: str = "") -> None:
        """Append a row."""
        self.rows.append(Row(what, value, unit, ratio, note))


@dataclass(slots=True)
class Report:
    """The tables of one run, and where and with what it ran."""

    device: str
    hardware: str
    date: str
    versions: dict[str, str]
    tables: list[Table] = field(default_factory=list)

    @staticmethod
    def here(device: str) -> Report:
        """An empty report about this machine."""
        hardware = torch.cuda.get_device_name() if device == "cuda" else _cpu_name()
        versions = {"python": platform.python_version()}
        for package in _PACKAGES:
            try:
                versions[package] = version(package)
            except PackageNotFoundError:
                versions[package] = "not installed"
        return Report(device, hardware, date.today().isoformat(), versions)

    def table(self, title: str, yardstick: str = "") -> Table:
        """Begin a table."""
        self.tables.append(Table(title, yardstick))
        return self.tables[-1]

    def save(self, path: Path) -> None:
        """Write JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1) + "\n")

    @staticmethod
    def load(path: Path) -> Report:
        """Read what `save` wrote."""
        data = json.loads(path.read_text())
        tables = [
            Table(table["title"], table["yardstick"], [Row(**row) for row in table["rows"]])
            for table in data.pop("tables")
        ]
        return Report(**data, tables=tables)

    def markdown(self) -> str:
        """The tables as Markdown."""
        versions = ", ".join(f"{package} {v}" for package, v in self.versions.items())
        lines = [f"## {self.hardware}", "", f"{self.date}; {versions}.", ""]
        for table in self.tables:
            lines += [f"### {table.title}", ""]
            if table.yardstick:
                lines += [f"Ratios are to {table.yardstick}.", ""]
            lines += ["| | | ratio | |", "|---|---:|---:|---|"]
            lines += [f"| {r.what} | {_figure(r)} | {_ratio(r)} | {r.note} |" for r in table.rows]
            lines.append("")
        return "\n".join(lines)

    def text(self) -> str:
        """The tables for a terminal."""
        lines = [f"{self.hardware}, {self.date}"]
        for table in self.tables:
            lines += ["", table.title + (f"   (ratio to {table.yardstick})" if table.yardstick else "")]
            lines += [f"  {r.what:58} {_figure(r):>14} {_ratio(r):>6}  {r.note}".rstrip() for r in table.rows]
        return "\n".join(lines)


def _figure(row: Row) -> str:
    return f"{row.value:.4g} {row.unit}"


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"


def _cpu_name() -> str:
    cores = torch.get_num_threads()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    # Others on the machine disturb what is measured: the reader should know.
    load = os.getloadavg()[0]
    return f"{names[0] if names else platform.machine()}, {cores} cores, load average {load:.1f} at the start"
