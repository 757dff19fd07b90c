"""The sinks that need a package, on the real one: what W&B and TensorBoard have kept is read back from their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    packages, folder = tmp_path_factory.mktemp("packages"), tmp_path_factory.mktemp("run")
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
         "--target", packages, "-r", ROOT / "requirements/sinks.txt"],
        check=True, timeout=300,
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.sinks.told", folder], cwd=ROOT, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": str(packages)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_wandb_keeps_every_version_and_all_that_the_run_logs_itself(kept: dict[str, Any]) -> None:
    rows = kept["wandb"]
    assert [(row["loss"], row["audit/version"], row["reward"]) for row in rows] == [
        (0, 7, 0),
        (1, 8, 1),
        (2, 9, 2),
    ]
    assert rows[1]["audit/hf/drift/model.layers.0"] == pytest.approx(1.0)
    assert {row["audit/hf/errors"] for row in rows} == {0}
    assert all(row["audit/hf/seconds"] > 0 for row in rows)


@pytest.mark.ci
@pytest.mark.timeout(600)
def test_tensorboard_keeps_every_version(kept: dict[str, Any]) -> None:
    scalars = kept["tensorboard"]
    assert scalars["audit/hf/errors"] == [[7, 0], [8, 0], [9, 0]]
    assert scalars["audit/hf/drift/model.layers.0"] == [[8, pytest.approx(1.0)], [9, pytest.approx(0.5)]]
    assert [step for step, seconds in scalars["audit/hf/seconds"] if seconds > 0] == [7, 8, 9]
