"""``bridge-audit preflight``: exits, JSON, and one clear line for what can't be done."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

Audit = Callable[..., "Done"]


class Done(msgspec.Struct):
    """How a command line ended, and what it printed."""

    code: int
    out: str
    err: str


def run(arguments: list[str]) -> Done:
    """The command line in this process: one of the fork server's, where everything is imported already."""
    from bridge_plugins.cli.audit import main

    sys.argv = ["bridge-audit", "preflight", *arguments]
    out, err = io.StringIO(), io.StringIO()
    os.environ["COLUMNS"] = "200"
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
        main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


@pytest.fixture
def audit(ranks: Ranks) -> Audit:
    """Run ``bridge-audit preflight`` with these arguments."""

    def call(*arguments: str) -> Done:
        [done] = ranks("tests.names.test_preflight_cli:run", backend=None, arguments=list(arguments))
        return msgspec.convert(done, Done)

    return call


def assert_not_done(done: Done, *parts: str) -> None:
    assert done.code == 2, done
    assert done.out == ""
    [line] = done.err.splitlines()
    assert line.startswith("error: ")
    for part in parts:
        assert part in line


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--tensor", "2"], ["No such option", "bridge-audit preflight --help"]),
        (["--tp", "two"], ["Invalid value for '--tp'", "--help"]),
        (["--tp", "0"], ["tp=0", "1 or more"]),
        (["--pp", "2", "--stages", "a,b"], ["--stages 'a,b'", "write --stages 3,4,4,3"]),
        (["--pp", "2", "--stages", "3,1", "--layout", "Ettt|tL"], ["--stages and --layout", "give one"]),
        ([], ["no config.json", "give the folder of a Hugging Face model"]),
    ],
)
def test_bad_options_are_one_line(audit: Audit, tmp_path: Path, options: list[str], parts: list[str]) -> None:
    assert_not_done(audit(str(tmp_path), *options), *parts)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (["--ep", "3"], ["experts by EP", "EP=3, experts=8", "EP=2"]),
        (["--pp", "3"], ["layers=4, PP·VPP=3", "STAGES="]),
        (["--pp", "2", "--world", "3"], ["WORLD=3", "WORLD=2"]),
        (["--tp", "2", "--pp", "2", "--stages", "3,2"], ["STAGES=3,2", "layers=4"]),
        (
            ["--pp", "2", "--layout", "Et|t*2L"],
            ["--layout 'Et|t*2L' gives 1,2 ", "has 4 and PP·VPP is 2", "try --layout 'Et*2|t*2L'"],
        ),
        (["--pp", "2", "--layout", "Et*3L"], ["to 1 chunks", "PP·VPP is 2", "try --layout 'Et*2|t*2L'"]),
    ],
)
def test_sizes_that_dont_divide_are_one_line(
    audit: Audit, checkpoint: Checkpoint, options: list[str], parts: list[str]
) -> None:
    assert_not_done(audit(str(checkpoint("qwen3_moe")), *options), *parts)


def test_a_foreign_index_is_one_line(audit: Audit, checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("qwen3_moe"), folder)
    index = {"weight_map": {"other.weight": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_not_done(audit(str(folder)), "but not in the index", "is it another model's index?")
    (folder / "model.safetensors.index.json").write_text("{}")
    assert_not_done(audit(str(folder)), "weight_map")


def test_another_models_index_is_one_line(audit: Audit, checkpoint: Checkpoint, tmp_path: Path) -> None:
    shutil.copy(checkpoint("qwen3_moe") / "config.json", tmp_path)
    index = {"weight_map": {"transformer.h.0.attn.c_attn.weight": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_not_done(
        audit(str(tmp_path)), "none of its 1 tensors", "Qwen3MoeForCausalLM", "index of one model"
    )


@pytest.mark.parametrize("config", ["[]", "{oops"])
def test_a_config_that_is_none_is_one_line(audit: Audit, tmp_path: Path, config: str) -> None:
    (tmp_path / "config.json").write_text(config)
    assert_not_done(audit(str(tmp_path)), "config.json is no config that transformers", "check model_type")


def test_a_truncated_file_is_one_line(audit: Audit, checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("qwen3_moe"), folder)
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(100)
    assert_not_done(audit(str(folder)), "is cut or no safetensors file")


def test_a_model_without_a_bridge_is_one_line(audit: Audit, tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 4}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert_not_done(audit(str(tmp_path)), "no bridge for GPT2LMHeadModel")


def test_consistent_is_exit_0_with_a_map_in_text_and_in_json(audit: Audit, checkpoint: Checkpoint) -> None:
    options = [str(checkpoint("qwen3_moe")), "--pp", "2", "--ep", "2", "--layout", "Et|tttL"]
    text = audit(*options)
    assert text.code == 0, text.err
    assert "consistent" in text.out
    assert "1-3" in text.out  # the second stage's layers
    assert "4-7" in text.out  # the second rank's experts
    done = audit(*options, "--json")
    report = json.loads(done.out)
    assert [stage["layers"] for stage in report["stages"]] == [[0], [1, 2, 3]]
    assert report["findings"] == []


def test_findings_are_exit_1_and_named(audit: Audit, checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(checkpoint("qwen3_moe"), folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 2}))
    done = audit(str(folder), "--pp", "2", "--ep", "2")
    assert done.code == 1, done.err
    assert "GAP" in done.out
    assert "model.layers.2." in done.out


def test_the_help_is_there_at_once_and_imports_no_stack() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "bridge_plugins.cli", "audit", "preflight", "--help"],
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "--stages" in done.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert not {"torch", "megatron", "transformers", "sglang", "numpy"} & imported
