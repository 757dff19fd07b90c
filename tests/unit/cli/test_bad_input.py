"""Bad input is one clear line and exit 2, and nothing is written; values that are no numbers are a finding."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest
import torch
from safetensors.torch import save_file

from bridge_plugins.audit import Header, summarize
from bridge_plugins.cli import preflight_map
from bridge_plugins.names.preflight.report import Finding, Report
from tests.unit.cli.command import audit, save, weights


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(tmp_path / "model", weights(), files=2)


@pytest.fixture
def summary(folder: Path, tmp_path: Path) -> Path:
    path = tmp_path / "summary.json"
    assert audit("summary", folder, "-o", path).code == 0
    return path


def test_what_is_no_source(tmp_path: Path) -> None:
    assert (
        "is not there; a source is a folder of a Hugging Face model" in audit("show", tmp_path / "none").error
    )
    assert "neither *.safetensors nor summaries" in audit("show", tmp_path).error
    assert "begins with http:// or https://" in audit("show", "ftp://here").error
    (tmp_path / "config.json").write_text("{}")
    assert "a config and no *.safetensors" in audit("show", tmp_path).error
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert f"name its folder, {tmp_path}" in audit("show", tmp_path / "model.safetensors").error


@pytest.mark.parametrize("command", ["show", "summary"])
def test_no_name_at_all_is_not_the_current_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.chdir(folder)
    assert "an empty name is no source; a source is a folder" in audit(command, "").error


@pytest.mark.parametrize("name", ["/dev/null", "pipe"])
def test_a_device_or_a_pipe_is_no_source(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    said = audit("show", tmp_path / name).error
    assert f"{tmp_path / name} is a device or a pipe" in said
    assert "write it to a file first" in said


def test_an_earlier_source_is_looked_at_though_nothing_differs(folder: Path, tmp_path: Path) -> None:
    said = audit("diff", folder, folder, "--earlier", tmp_path / "nowhere").error
    assert f"{tmp_path / 'nowhere'} is not there" in said


@pytest.mark.parametrize("command", ["show", "summary", "diff"])
def test_a_folder_without_a_tensor(tmp_path: Path, command: str) -> None:
    save_file({}, tmp_path / "model.safetensors")
    said = audit(command, *[tmp_path] * (2 if command == "diff" else 1)).error
    assert f"{tmp_path} has no tensor in its *.safetensors" in said


@pytest.mark.parametrize("odd", ["\x1b[31m", "\n", "\x7f", "\x9b", "\u202e"])
def test_a_name_that_a_terminal_would_obey(tmp_path: Path, odd: str) -> None:
    name, file = f"model.{odd}.weight", tmp_path / "model.safetensors"
    save_file({name: torch.ones(1)}, file)
    assert f"{file} is no safetensors file: it names a tensor {name!r}" in audit("show", tmp_path).error
    save_file({"model.weight": torch.ones(1)}, file)
    index = tmp_path / "model.safetensors.index.json"
    for named, where in ((name, file.name), ("model.weight", f"{odd}.safetensors")):
        index.write_text(json.dumps({"weight_map": {named: where}}))
        said = audit("show", tmp_path).error
        assert f"{index} is no index: it has " in said
        assert repr(odd)[1:-1] in said


def test_a_torch_dist_checkpoint_is_not_unpickled(tmp_path: Path) -> None:
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("10")
    assert "a torch_dist checkpoint" in audit("show", tmp_path).error


def test_an_index_that_names_missing_files(folder: Path) -> None:
    (folder / "model-00002-of-00002.safetensors").unlink()
    assert (
        "its index names model-00002-of-00002.safetensors, which is not there" in audit("show", folder).error
    )
    (folder / "model.safetensors.index.json").unlink()
    assert "model-00002-of-00002.safetensors is not there" in audit("show", folder).error


def test_an_index_of_another_model(folder: Path) -> None:
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text())["weight_map"]
    index.write_text(
        json.dumps({"weight_map": {**listed, "other.weight": "model-00001-of-00002.safetensors"}})
    )
    assert "other.weight is in the index but in no file" in audit("show", folder).error
    index.write_text(json.dumps({"weight_map": dict(list(listed.items())[1:])}))
    assert "is in a file but not in the index" in audit("show", folder).error
    index.write_text("")
    assert f"{index} is no index: Expecting value" in audit("show", folder).error


@pytest.mark.parametrize("weight_map", ['["a"]', '"a"', "1", "null", "{}", '{"a": 1}', '{"a": ["b"]}'])
def test_an_index_that_is_no_map_of_tensors_to_files(folder: Path, weight_map: str) -> None:
    index = folder / "model.safetensors.index.json"
    for content in (f'{{"weight_map": {weight_map}}}', weight_map):
        index.write_text(content)
        said = audit("show", folder).error
        assert f"{index} is no index: its weight_map is no map of tensors to files; fetch it again" in said


def test_an_index_names_no_file_elsewhere(folder: Path, tmp_path: Path) -> None:
    save_file({"other.weight": torch.ones(1)}, tmp_path / "outside.safetensors")
    index = folder / "model.safetensors.index.json"
    listed = json.loads(index.read_text())["weight_map"]
    index.write_text(json.dumps({"weight_map": {**listed, "other.weight": "../outside.safetensors"}}))
    assert "its index names ../outside.safetensors, which is not there" in audit("show", folder).error


@pytest.mark.parametrize("keep", [0, 7, 100, -1])
def test_a_truncated_file(folder: Path, keep: int) -> None:
    file = folder / "model-00001-of-00002.safetensors"
    file.write_bytes(file.read_bytes()[:keep])
    error = audit("show", folder).error
    assert str(file) in error
    assert "cut" in error or "no safetensors file" in error


def test_a_dtype_without_fingerprint(tmp_path: Path) -> None:
    save_file({"x": torch.zeros(1, dtype=torch.complex64)}, tmp_path / "model.safetensors")
    assert "model.safetensors: x is complex64, which has no fingerprint" in audit("show", tmp_path).error


def test_a_name_in_two_files(tmp_path: Path) -> None:
    for file in ("a", "b"):
        save_file({"model.norm.weight": torch.ones(4)}, tmp_path / f"{file}.safetensors")
    assert (
        "model.norm.weight is in a.safetensors and in b.safetensors; keep one"
        in audit("show", tmp_path).error
    )


def test_a_damaged_summary(summary: Path) -> None:
    whole = summary.read_bytes()
    newer = msgspec.json.decode(whole)
    newer["header"]["schema"] = 99
    for content in (b"", whole[:-20], b"{}", msgspec.json.encode(newer)):
        summary.write_bytes(content)
        assert str(summary) in audit("show", summary).error
        assert str(summary) in audit("diff", summary, summary).error
    assert "schema 99" in audit("show", summary).error


def test_summaries_of_different_models(summary: Path, tmp_path: Path) -> None:
    other = save(tmp_path / "other", {"visual.blocks.0.w.weight": torch.ones(3)})
    assert "different models: no name in common" in audit("diff", summary, other).error
    larger = save(tmp_path / "larger", {name: torch.cat([t, t]) for name, t in weights().items()})
    assert "no tensor has the same size in both" in audit("diff", summary, larger).error


def test_a_summary_without_records(tmp_path: Path, summary: Path) -> None:
    brief = msgspec.json.decode(summary.read_bytes())
    brief["records"] = {}
    (tmp_path / "brief.json").write_bytes(msgspec.json.encode(brief))
    assert audit("show", tmp_path / "brief.json").code == 0
    assert "layers only" in audit("show", tmp_path / "brief.json", "--names").error
    assert "no records of tensors" in audit("diff", summary, tmp_path / "brief.json").error


def test_no_such_layer_or_expert(folder: Path) -> None:
    assert "has no layer 7" in audit("show", folder, "--layer", 7).error
    assert "has no layer 1 expert 9" in audit("show", folder, "--layer", 1, "--expert", 9).error
    assert "--json and --csv exclude each other" in audit("show", folder, "--json", "--csv").error
    assert "No such option" in audit("diff", folder, folder, "--nope").error


def test_values_that_are_no_numbers_are_a_finding(tmp_path: Path) -> None:
    bad = weights()
    bad["model.layers.1.self_attn.q_proj.weight"][:] = float("nan")
    done = audit("show", save(tmp_path / "model", bad))
    assert done.code == 1
    assert "finding" in done.out
    assert "STATS model.layers.1.self_attn.q_proj.weight: 256 elements are NaN or infinite" in done.out
    [row] = [line for line in done.out.splitlines() if line.strip().startswith("layer 1 ")]
    assert row.rstrip().endswith("256 NaN/Inf")


def test_a_summary_that_cannot_be_written_leaves_the_old_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    assert "can't be written" in audit("summary", folder, "-o", tmp_path / "file" / "s.json").error
    assert (tmp_path / "file").read_text() == "old"


@pytest.mark.parametrize("output", ["", ".", "/", "pipe"])
def test_a_summary_takes_the_place_of_nothing_but_a_file(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert (
        "can't be written: a folder or a device, not a file" in audit("summary", folder, "-o", output).error
    )
    assert Path("pipe").is_fifo()


def test_a_link_to_a_summary_stays_one(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "latest.json").symlink_to("version3.json")  # as /dev/stdout is one
    (tmp_path / "version3.json").write_text("old")
    assert audit("summary", folder, "-o", tmp_path / "latest.json").code == 0
    assert (tmp_path / "latest.json").is_symlink()
    assert audit("show", tmp_path / "version3.json").code == 0


@pytest.mark.parametrize(
    "url", ["localhost:30000", "http://", "http://[::1", "http://here:port", "ftp://here"]
)
def test_what_is_no_url_of_an_engine(summary: Path, url: str) -> None:
    said = audit("verify", summary, "--engine", url).error
    assert url in said
    assert "http://HOST:PORT" in said


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_a_timeout_that_is_none(summary: Path, seconds: str) -> None:
    said = audit("verify", summary, "--engine", "http://127.0.0.1:9", "--timeout", seconds).error
    assert "give more than 0" in said


@pytest.mark.parametrize("key", ["sesame\n", "schlüssel"])
def test_a_key_that_no_header_carries_is_not_printed(
    summary: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("KEY", key)
    said = audit("verify", summary, "--engine", "http://127.0.0.1:9", "--api-key-env", "KEY").error
    assert "no header can carry that" in said
    assert key.strip() not in said


@pytest.mark.parametrize("limit", ["nan", "-1"])
def test_a_limit_that_is_none(tmp_path: Path, limit: str) -> None:
    said = audit("parity", tmp_path, "--engine", "http://127.0.0.1:9", "--limit", limit).error
    assert f"--limit {limit}: give nats, 0 or more" in said


def test_a_name_in_brackets_is_no_markup(tmp_path: Path) -> None:
    names = ("model.layers.0.[/w].weight", "model.layers.0.[bold]w.weight")
    odd = save(tmp_path / "odd", {name: torch.ones(2) for name in names})
    shown = audit("show", odd, "--names")
    assert shown.code == 0
    for name in names:
        assert name in shown.out


def test_a_preflights_finding_in_brackets_is_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Finding("GAP", "model.[/w].weight", "", "nothing is loaded from it")]
    preflight_map.show(Report("m", "F", "TP=1", "", True, 0, 0, "the index", [], [], found, []))
    assert "model.[/w].weight" in capsys.readouterr().out


def test_an_empty_model_is_no_crash(tmp_path: Path) -> None:
    empty = tmp_path / "empty.json"
    summarize(Header("m", "", "1"), []).write(empty)
    assert audit("show", empty).code == 0
