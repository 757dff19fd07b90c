"""Start a server, push, read back, and time it: ``python -m benchmarks.readback [--python ENGINE_PYTHON] [--keep]``."""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from safetensors.torch import load_file

from benchmarks.fingerprint.report import Report, Table
from benchmarks.readback.model import make_model
from bridge_plugins.audit import Summary, WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sglang.readback import read_back
from bridge_plugins.errors import EngineError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Run
from bridge_plugins.patches.cpu import wanted
from bridge_plugins.topology import Topology

RESULTS = Path(__file__).parents[1] / "results"
ROUNDS = 7


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.readback", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the engine's environment")
    parser.add_argument("--layers", type=int, default=8, help="of the model that is made, about 27 MB each")
    parser.add_argument("--engine-tp", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help=f"write the numbers to {RESULTS.name}/")
    options = parser.parse_args()
    with Run() as run:
        folder = run.folder / "model"
        make_model(folder, options.layers)
        topology = Topology(engine_tp=options.engine_tp)
        server = start_server(run, folder, topology, cpu=wanted(), python=options.python)
        server.wait(600)
        report = Report.here("cpu" if wanted() else "cuda")
        version = server.engine.server_info()["version"]
        report.versions["sglang"] = version
        table = report.table(f"SGLang {version}, TP={options.engine_tp}", "the push")
        measure(table, server.engine, folder)
    print(report.text())
    if options.keep:
        report.save(RESULTS / f"readback_{report.device}.json")


def measure(table: Table, engine: Engine, folder: Path) -> None:
    """Medians of several rounds, after one that compiles and fills what is kept."""
    weights = load_file(folder / "model.safetensors")
    nbytes = sum(tensor.nbytes for tensor in weights.values())
    audit = WeightAudit("random")

    def audited() -> Summary:
        for _ in audit.watch(weights.items()):
            pass
        return audit.finish("1")[0]

    summary = audited()
    other = changed(summary)
    rows: list[tuple[str, Callable[[], object]]] = [
        (
            "push in flattened buckets of 64 MiB",
            lambda: push(weights.items(), [engine], bucket_bytes=64 << 20),
        ),
        ("audit of the stream alone", audited),
        ("readback, all layers agree", lambda: read_back(engine, summary)),
        ("readback, one layer differs: its tensors too", lambda: read_back(engine, other)),
        ("SGLang's own checksum of every tensor", engine.checksum),
    ]
    base = 0.0
    for what, act in rows:
        try:
            act()
            seconds = statistics.median(timed(act) for _ in range(ROUNDS))
        except EngineError as error:
            table.add(what, float("nan"), "ms", note=str(error).partition("message")[2][3:60] or "not there")
            continue
        base = base or seconds
        table.add(what, seconds * 1e3, "ms", seconds / base, f"{nbytes / seconds / 1e9:.2f} GB/s")


def changed(summary: Summary) -> Summary:
    """A summary with one tensor's record another: what is served differs from it in one layer."""
    import msgspec

    from bridge_plugins.audit import summarize

    name = next(name for name in summary.records if ".layers.1." in name)
    record = summary.records[name]
    lanes = (record.lanes[0] ^ 1, record.lanes[1])
    records = {**summary.records, name: msgspec.structs.replace(record, lanes=lanes)}
    return summarize(summary.header, records.values())


def timed(act: Callable[[], object]) -> float:
    """Seconds that one call takes."""
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
