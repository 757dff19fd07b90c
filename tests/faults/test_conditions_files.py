"""Folders and files that are full, of another kind, shared, newer or hostile: the run goes on, and nothing is lost."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from bridge_plugins.audit import Summary, WeightAudit, read_summary
from bridge_plugins.audit.automatic import Automatic
from bridge_plugins.audit.megatron_local.part import read_parts
from bridge_plugins.audit.origin import Origin
from bridge_plugins.audit.reading import read_versions
from bridge_plugins.errors import UsageError
from bridge_plugins.sinks.json_file import tell

Run = Callable[[], Automatic]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Makes automatic audits, each as a process of its own has one."""
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path))
    monkeypatch.setenv("BRIDGE_AUDIT_MAX_VERSIONS", "-1")
    made: list[Automatic] = []

    def one() -> Automatic:
        monkeypatch.setattr("bridge_plugins.audit.keeping._own", {})
        monkeypatch.setattr("bridge_plugins.audit.keeping._newest", [])
        made.append(Automatic())
        return made[-1]

    yield one
    for automatic in made:
        automatic.close()


def items(seed: int = 0, tensors: int = 3) -> Iterator[tuple[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    for layer in range(tensors):
        yield f"model.layers.{layer}.w", torch.randn(4, 8, generator=generator)


def export(automatic: Automatic, seed: int = 0, label: str = "", tensors: int = 3) -> int:
    """How many items reached the consumer."""
    if not label:
        return len(list(automatic.exported(items(seed, tensors), Origin)))
    with automatic.updating(lambda: label):
        return export(automatic, seed, tensors=tensors)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_full_disk_stops_no_export_and_damages_no_file(
    run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    automatic = run()
    export(automatic)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        assert export(automatic, tensors=200) == 200
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "File too large" in caplog.text
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert export(automatic) == 3
    assert read_summary(tmp_path).header.version == "3"


@pytest.mark.parametrize("place", ["/dev/full", "/proc/nowhere", "a file"])
def test_a_folder_that_can_not_be_written_to_stops_no_export(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(file) if place == "a file" else place)
    monkeypatch.setenv("BRIDGE_AUDIT_SINKS", "json,log")
    assert export(run()) == 3
    assert "the run goes on" in caplog.text
    assert names(tmp_path) == ["file"]
    assert file.read_text() == "mine"


def test_a_clock_that_moves_back_does_not_change_the_order_of_versions(run: Run, tmp_path: Path) -> None:
    automatic = run()
    export(automatic, 1, "warm")
    # As if the clock had been an hour ahead until now.
    [first] = tmp_path.iterdir()
    ahead = first.stat().st_mtime_ns + 3600 * 10**9
    os.utime(first, ns=(ahead, ahead))
    export(automatic, 2, "cold")
    export(automatic, 3, "colder")
    assert list(read_versions(tmp_path)) == ["warm", "cold", "colder"]
    assert read_summary(tmp_path).header.version == "colder"


def test_a_file_of_another_run_is_kept(run: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for seed in (1, 2, 3):
        export(run(), seed)
    name = "v000001.hf.rank00000.json"
    assert names(tmp_path) == [name, f"{name}.1.old", f"{name}.2.old"]
    assert f"is another run's and is kept as {name}.1.old: give each run a folder of its own" in caplog.text
    kept = [read_summary(tmp_path / file).digest for file in (f"{name}.1.old", f"{name}.2.old", name)]
    assert len(set(kept)) == 3
    assert read_summary(tmp_path).digest == kept[2]


def test_the_sink_of_files_keeps_them_too(run: Run, tmp_path: Path) -> None:
    for seed in (1, 2):
        run()
        audit = WeightAudit("tiny")
        list(audit.watch(items(seed)))
        for version in ("1", "2"):
            tell(audit.finish(version)[0], [])
            list(audit.watch(items(seed)))
    assert names(tmp_path) == [f"v00000{n}.hf.rank00000.json{old}" for n in (1, 2) for old in ("", ".1.old")]


def test_one_run_rewrites_its_own_file_and_keeps_no_copy(run: Run, tmp_path: Path) -> None:
    automatic = run()
    with automatic.updating(lambda: 1):
        for _ in automatic.exported(items(), Origin):
            pass
        for path in tmp_path.iterdir():
            assert path.suffix == ".json"
    assert names(tmp_path) == ["v000001.hf.rank00000.json"]


def test_two_runs_in_one_folder_are_told_apart(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for world, rank in (("4", "3"), ("2", "0"), ("2", "1")):
        monkeypatch.setenv("WORLD_SIZE", world)
        monkeypatch.setenv("RANK", rank)
        export(run())
    said = [str(finding) for finding in read_summary(tmp_path).findings]
    assert any("files of several runs lie in one folder: of 2 ranks and of 4 ranks" in line for line in said)


LABELS = (
    "../../etc/passwd",
    "/etc/passwd",
    "a\0b",
    "²",
    "٣",
    "9" * 5000,
    "x" * 5000,
    "a/b",
    "a_b",
    " ",
    "\ud800",
    "con.",
)


def test_labels_name_no_other_file(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    os.environ["BRIDGE_AUDIT_DIR"] = str(folder)
    automatic = run()
    for seed, label in enumerate(LABELS[:-2]):
        assert export(automatic, seed, label) == 3
    assert names(tmp_path) == ["audit"]
    assert len(names(folder)) == len(LABELS) - 2  # each has a file of its own
    assert {read_summary(path).header.version for path in folder.iterdir()} == set(LABELS[:-2])
    for label in LABELS[-2:]:
        assert export(automatic, label=label) == 3


def summary() -> dict[str, Any]:
    audit = WeightAudit("tiny")
    list(audit.watch(items()))
    made: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(audit.finish("1")[0]))
    return made


def test_an_older_summary_is_read(tmp_path: Path) -> None:
    older = summary()
    for field in ("world", "unversioned", "partial", "manifest", "seconds", "merged"):
        del older["header"][field]
    older["header"]["schema"] = 1
    del older["findings"]
    path = tmp_path / "v000001.hf.rank00000.json"
    path.write_bytes(msgspec.json.encode(older))
    assert read_summary(path).records.keys() == older["records"].keys()
    assert read_summary(tmp_path).digest == older["digest"]


def test_a_newer_summary_is_refused_whatever_it_looks_like(tmp_path: Path) -> None:
    newer = {"header": {"schema": 99, "model": {"name": "tiny"}}, "tensors": 7}
    older = tmp_path / "v000001.hf.rank00000.json"
    older.write_bytes(msgspec.json.encode(summary()))
    path = tmp_path / "v000002.hf.rank00000.json"
    path.write_bytes(msgspec.json.encode(newer))
    for source in (path, tmp_path):  # a folder's newest version must not be passed over in silence
        with pytest.raises(UsageError, match="has schema 99, this version reads up to"):
            read_summary(source)
    part = tmp_path / "v000002.megatron_local.rank00000.part"
    part.write_bytes(msgspec.json.encode({**newer, "parts": []}))
    with pytest.raises(UsageError, match="has schema 99, this version reads up to"):
        read_parts(part)


DEEP = b"[" * 200_000 + b"]" * 200_000


def hostile() -> dict[str, bytes]:
    whole = summary()
    [name, *_] = whole["records"]

    def with_record(**fields: Any) -> bytes:
        record = {**whole["records"][name], **fields}
        return msgspec.json.encode({**whole, "records": {**whole["records"], name: record}})

    return {
        "deep": b'{"header":' + DEEP + b"}",
        "deep elsewhere": msgspec.json.encode(whole)[:-1] + b',"more":' + DEEP + b"}",
        "no text": b'{"header":{"model":"\xff"}}',
        "shape of text": with_record(shape=["4", "8"]),
        "no lanes": with_record(lanes=[1]),
        "records in a list": msgspec.json.encode({**whole, "records": []}),
        "a number": b"1",
        "empty": b"",
    }


@pytest.mark.parametrize("kind", list(hostile()))
def test_a_hostile_summary_is_one_clear_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "v000001.hf.rank00000.json"
    path.write_bytes(hostile()[kind])
    with pytest.raises(UsageError) as raised:
        read_summary(path)
    assert str(raised.value).startswith(f"{path} is no summary: ")
    assert len(str(raised.value).splitlines()) == 1


def test_a_pipe_in_the_folder_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "v000001.hf.rank00000.json").write_bytes(msgspec.json.encode(summary()))
    os.mkfifo(tmp_path / "v000002.hf.rank00000.json")
    assert read_summary(tmp_path).header.version == "1"


def test_names_of_tensors_are_no_paths_no_markup_and_no_loop(tmp_path: Path) -> None:
    from rich.console import Console

    from bridge_plugins.audit.table import layer_table

    odd = ["../../../x", "model.layers.1./etc/passwd", "[red]x[/red]", "[/]", "\x1b[2J", "[bold", "]"]
    odd += [f"model.layers.{number}.w" for number in ("999999999", "9" * 20, "9" * 5000)]
    audit = WeightAudit("[bold]tiny[/bold]")
    list(audit.watch((name, torch.ones(2)) for name in odd))
    made, findings = audit.finish("1")
    assert any("layers 0, 2 to 999999998 of 1000000000 never came" in str(finding) for finding in findings)
    path = tmp_path / "s.json"
    made.write(path)
    read: Summary = read_summary(path)
    assert list(read.records) == odd
    console = Console(record=True, width=120)
    console.print(layer_table(read))
    assert names(tmp_path) == ["s.json"]
