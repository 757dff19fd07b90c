"""``bridge-audit summary`` and ``show``: every dtype and shape is read right, whatever the files' layout."""

from __future__ import annotations

import csv
import io
import os
import pty
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from bridge_plugins.audit import Record, read_summary
from bridge_plugins.audit.sources import reading
from bridge_plugins.audit.sources.hf_folder import HfFolder
from bridge_plugins.audit.summary import Header, summarize
from bridge_plugins.fingerprint import fingerprint
from tests.unit.cli.command import audit, save, weights


@pytest.mark.parametrize("window", [64, 1 << 10, 8 << 20])
def test_a_folder_is_read_as_its_tensors_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr(reading, "WINDOW", window)  # rows longer than a window are cut, too
    tensors = weights() | {
        "scalar": torch.tensor(3.5),
        "empty": torch.empty(0, 4),
        "long_row": torch.randn(1, 501),
        "stacked": torch.randn(3, 5, 7).half(),
        "codes": torch.randint(0, 255, (9, 3), dtype=torch.uint8),
        "eight_bits": torch.randn(4, 33).to(torch.float8_e4m3fn),
        "whole": torch.randint(-9, 9, (5,)),
        "flags": torch.tensor([True, False, True]),
        "wide": torch.randn(17, 3, dtype=torch.float64),
        "bad": torch.tensor([float("nan"), float("inf"), 0.0, -2.0]),
    }
    records = HfFolder.read(save(tmp_path, tensors, files=3)).summary().records
    assert records.keys() == tensors.keys()
    for name, tensor in tensors.items():
        expected = Record.of(name, tuple(tensor.shape), tensor.nbytes, fingerprint(tensor))
        found = records[name]
        assert found.norm == pytest.approx(expected.norm, rel=1e-5)
        assert found.lanes == expected.lanes, name
        assert (found.shape, found.dtype, found.nbytes) == (expected.shape, expected.dtype, expected.nbytes)
        assert (found.absmax, found.zeros, found.nonfinite) == (
            expected.absmax,
            expected.zeros,
            expected.nonfinite,
        )


def test_tensors_that_begin_at_odd_bytes(tmp_path: Path) -> None:
    header = (
        b'{"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},'
        b'"b":{"dtype":"BF16","shape":[2,5],"data_offsets":[3,23]}}'
    )
    tensor = torch.randn(2, 5).bfloat16()
    data = b"abc" + tensor.view(torch.uint8).numpy().tobytes()
    (tmp_path / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + data)
    folder = HfFolder.read(tmp_path)
    assert folder.summary().records["b"].lanes == fingerprint(tensor).lanes
    assert torch.equal(folder.tensor("b"), tensor)


def test_a_file_cut_while_it_is_read_is_an_error_not_a_crash(tmp_path: Path) -> None:
    folder = HfFolder.read(save(tmp_path, weights()))
    with (tmp_path / "model.safetensors").open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(
        reading.UsageError, match=r"model\.safetensors could not be read: it was cut to 2000 bytes"
    ):
        folder.summary()


def test_a_summary_is_written_and_shown(tmp_path: Path) -> None:
    model, written = save(tmp_path / "model", weights(), files=2), tmp_path / "out" / "summary.json"
    done = audit("summary", model, "-o", written)
    assert done.code == 0
    digest = read_summary(written).digest
    assert done.out.splitlines()[-1] == f"wrote {written}: digest {digest}"
    assert [path.name for path in written.parent.iterdir()] == ["summary.json"]
    assert audit("show", model).out == audit("show", written).out
    assert audit("summary", save(tmp_path / "one", weights()), "--json").json["digest"] == digest


def test_the_table_has_a_row_for_each_layer_and_fits_a_terminal(tmp_path: Path) -> None:
    names = {
        f"model.language_model.layers.{n}.mlp.experts.{e}.w.weight": torch.randn(9)
        for n in (0, 60)
        for e in (0, 9)
    }
    names |= {"model.visual.blocks.3.w.weight": torch.full((4,), 0.0123), "lm_head.weight": torch.zeros(2)}
    done = audit("show", save(tmp_path / "model", names), columns=80)
    assert done.code == 0
    rows = [line for line in done.out.splitlines() if "layer" in line]
    assert [row.split("  ")[0].strip() for row in rows][1:] == [
        "outside layers", "layer 0", "layer 60", "visual.blocks layer 3",
    ]  # fmt: skip
    assert "zeros" in rows[1]
    assert "…" not in done.out
    assert max(map(len, done.out.splitlines())) <= 80
    assert "\x1b" not in done.out


def test_colour_is_for_terminals(tmp_path: Path) -> None:
    model = save(tmp_path / "model", {"a.weight": torch.tensor([float("nan")])})
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bridge_plugins.cli", "audit", "show", str(model)]
    process = subprocess.Popen(command, stdout=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "80"})
    os.close(theirs)
    shown = b""
    try:
        while more := os.read(ours, 1 << 16):
            shown += more
    except OSError:  # the other side is closed
        pass
    assert process.wait(60) == 1
    assert b"\x1b[31m" in shown


def test_deeper_rows(tmp_path: Path) -> None:
    model = save(tmp_path / "model", weights())

    def names(*options: object) -> list[str]:
        return [row["name"] for row in audit("show", model, "--json", *options).json["rows"]]

    assert names() == ["outside layers", "layer 0", "layer 1", "layer 2"]
    at = "model.layers.1."
    outside = sorted([*(f"{at}self_attn.{p}_proj.weight" for p in "qkvo"), f"{at}mlp.gate.weight"])
    assert names("--layer", 1) == [*outside, "layer 1 expert 0", "layer 1 expert 1"]
    assert names("--expert", 1) == ["layer 0 expert 1", "layer 1 expert 1", "layer 2 expert 1"]
    assert sorted(names("--layer", 1, "--expert", 1)) == [
        f"{at}mlp.experts.1.{p}_proj.weight" for p in ("down", "gate", "up")
    ]
    assert sorted(names("--names")) == sorted(weights())


def test_csv_has_whole_numbers(tmp_path: Path) -> None:
    model = save(tmp_path / "model", weights())
    rows = list(csv.DictReader(io.StringIO(audit("show", model, "--csv", "--names").out)))
    assert {row["name"]: row["shape"] for row in rows}["model.embed_tokens.weight"] == "40x16"
    assert sum(int(row["elements"]) for row in rows) == sum(t.numel() for t in weights().values())


def test_help_and_summaries_need_no_torch(tmp_path: Path) -> None:
    summary = tmp_path / "s.json"
    audit("summary", save(tmp_path / "model", weights()), "-o", summary)
    audit("summary", save(tmp_path / "other", weights(seed=1)), "-o", tmp_path / "t.json")
    for command, code in [
        (["--help"], 0),
        (["show", str(summary)], 0),
        (["diff", str(summary), str(tmp_path / "t.json")], 1),
        (["summary", str(tmp_path / "model")], 0),
    ]:
        script = f"""
import sys
from bridge_plugins.cli.audit import main
sys.argv = ["bridge-audit", *{command!r}]
try:
    main()
except SystemExit as ended:
    assert ended.code == {code}, ended.code
found = {{"torch", "megatron", "sglang", "transformers"}} & sys.modules.keys()
assert not found, found
assert "numba" not in sys.modules
"""
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)


def test_several_files_are_read_in_the_files_order(tmp_path: Path) -> None:
    save_file({"b.weight": torch.ones(2)}, tmp_path / "a.safetensors")
    save_file({"a.weight": torch.ones(3)}, tmp_path / "b.safetensors")
    assert list(HfFolder.read(tmp_path).tensors) == ["b.weight", "a.weight"]


@pytest.mark.parametrize("columns", [40, 50, 60, 80])
@pytest.mark.parametrize("deeper", [(), ("--layer", 1), ("--names",)])
def test_a_narrow_terminal_keeps_names_and_digests(
    tmp_path: Path, columns: int, deeper: tuple[object, ...]
) -> None:
    model = save(tmp_path / "m", weights())
    shown = audit("show", model, *deeper, columns=columns).out.splitlines()[1:]
    rows = audit("show", model, *deeper, "--json").json["rows"]
    letters = "".join("".join(line.split("  ")[0] for line in shown).split())  # folded names together again
    assert max(map(len, shown)) <= columns
    assert all(row["name"].replace(" ", "") in letters for row in rows)
    assert all(row["digest"][:8] in "\n".join(shown) for row in rows)
    assert ("absmax" in "\n".join(shown)) == (columns == 80)


@pytest.mark.parametrize("how", [(), ("--names",), ("--csv",), ("--json",)])
def test_a_reader_that_leaves_is_no_finding_and_no_traceback(tmp_path: Path, how: tuple[str, ...]) -> None:
    model = save(tmp_path / "m", weights())
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "bridge_plugins.cli", "audit", "show", model, *how]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize("how", [(), ("--names",), ("--csv",), ("--json",)])
def test_an_output_that_takes_nothing_is_no_finding_and_no_traceback(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    command = shlex.join(
        [
            sys.executable,
            "-m",
            "bridge_plugins.cli",
            "audit",
            "show",
            str(save(tmp_path / "m", weights())),
            *how,
        ]
    )
    full = subprocess.run(f"{command} > /dev/full", shell=True, capture_output=True, timeout=120, check=False)  # noqa: S602
    assert (full.returncode, full.stderr) == (
        2,
        b"error: the output can't be written: No space left on device\n",
    )
    closed = subprocess.run(f"{command} >&-", shell=True, capture_output=True, timeout=120, check=False)  # noqa: S602
    assert (closed.returncode, closed.stderr) == (0, b"")


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    model = save(tmp_path / "m", weights())
    os.mkfifo(tmp_path / "m" / "zz.safetensors")  # the command waits here until it is interrupted
    (tmp_path / "m" / "model.safetensors.index.json").unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "bridge_plugins.cli",
        "audit",
        "summary",
        model,
        "-o",
        tmp_path / "s.json",
    ]
    with (
        # Where the tests run in the background, an interrupt is ignored, and children inherit that.
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        ) as running,
        (tmp_path / "m" / "zz.safetensors").open("wb"),  # opens when the other side does
    ):
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=120)
    assert (running.returncode, out, err) == (130, b"", b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m"]


@pytest.mark.parametrize(
    ("bridge", "patches", "said"),
    [("9.9.0", {"names": "applied"}, True), ("0.6.2", {"names": "applied"}, False), ("9.9.0", {}, False)],
    ids=["unknown", "known", "a folder that was read"],
)
def test_an_unknown_version_of_the_bridge_is_said(
    tmp_path: Path, bridge: str, patches: dict[str, str], said: bool
) -> None:
    header = Header("moe", "TP=1", "1", patches=patches, packages={"megatron-bridge": bridge})
    record = Record("model.norm.weight", (4,), "bfloat16", (1, 2), 8)
    summarize(header, [record]).write(tmp_path / "1.json")
    assert (
        "megatron-bridge 9.9.0 was never run with these patches" in audit("show", tmp_path / "1.json").out
    ) == said
