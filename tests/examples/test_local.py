"""The example without a framework: really run, with a tiny model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.dry_run import dry_run
from tests.stacks.models import Checkpoint


def test_the_models_own_config_is_asked(checkpoint: Checkpoint) -> None:
    model = checkpoint("qwen3_moe")
    done = dry_run("local", model, "--size", "ep=2", "--size", "world=4", "--size", "engine_tp=2")
    assert done.status == 0
    assert done.command[:3] == [sys.executable, "-m", "examples.bridge_mode"]
    sizes = {"--model": str(model), "--tp": "2", "--pp": "1", "--ep": "2", "--world": "4", "--engine-tp": "2"}
    assert {option: done.value(option) for option in sizes} == sizes
    assert done.environment["engine"] == {"BRIDGE_READBACK": "1"}
    refused = dry_run("local", model, "--size", "tp=3", "--size", "ep=3")
    assert refused.status == 2
    assert "TP=3, heads=8" in refused.error
    assert "EP=3, experts=8" in refused.error


def test_a_folder_without_a_config_is_one_clear_line(tmp_path: Path) -> None:
    done = dry_run("local", tmp_path)
    assert done.status == 2
    assert f"error: {tmp_path} has no config that can be read" in done.error


@pytest.mark.ci
def test_it_pushes_and_reads_back(tmp_path: Path) -> None:
    from examples.bridge_mode.checkpoint import make_checkpoint

    make_checkpoint("dense", tmp_path / "mine")
    command = [sys.executable, "-m", "examples.local", str(tmp_path / "mine"), "--steps", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first == "topology   TP=2 PP=1 EP=1 SP WORLD=2"
    assert last.startswith("VERDICT consistent  version=2 ")
