"""The example for one GPU, at a tiny size on the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "examples.one_gpu", "--model", "tiny"]
ROOT = Path(__file__).parents[2]


def _run(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *options], cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )


@pytest.mark.ci
def test_two_versions_are_pushed_proved_and_measured(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    done = _run("--steps", "1", "--repeats", "1", "--bucket-mb", "0.1", "--results", str(results))
    assert done.returncode == 0, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == "VERDICT consistent  version=2  tensors=69 layers=2 mismatched=0 not_compared=0"
    found = json.loads(results.read_text())
    assert found["compared_bytes"] == found["total_bytes"] > 0
    assert all(times and min(times) > 0 for times in found["seconds"].values())


@pytest.mark.ci
def test_a_bucket_that_was_not_loaded_is_found() -> None:
    done = _run("--repeats", "0", "--bucket-mb", "0.1", "--fault", "stale-engine")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "READBACK" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("VERDICT findings  version=2 ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--fault", "swap-experts"], "no checkpoint to be held against"),
        (["--model", "nothing"], "neither qwen3-30b-a3b"),
    ],
)
def test_what_cannot_work_is_refused_before_anything_starts(options: list[str], said: str) -> None:
    done = _run(*options)
    assert done.returncode == 2
    assert said in done.stdout
    assert len(done.stdout.splitlines()) == 1
