"""The names tests on each older Megatron Bridge, on its real wheel, in an environment of its own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VERSIONS = ("0.3.1", "0.4.2", "0.5.1")

#: Every fault, and at PP2·EP2: names, import and a bit-for-bit round trip of grouped and of single experts; LoRA.
CI = "mends_every_fault or grouped or SequentialMLP or another_class"


def run_names_tests(version: str, *selection: str) -> int:
    """Run tests/names in the environment of `version`; give how many passed. Raises if any failed."""
    made = subprocess.run(
        [ROOT / "scripts/bridge_version.sh", version],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    done = subprocess.run(
        [made.stdout.strip(), "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/names", *selection],
        cwd=ROOT, capture_output=True, text=True, timeout=3600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed, done.stdout[-2000:]
    return int(passed[1])


@pytest.mark.ci
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_names_and_a_round_trip(version: str) -> None:
    assert run_names_tests(version, "-m", "not full and not ci", "-k", CI) >= 6


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("version", VERSIONS)
def test_everything(version: str) -> None:
    assert run_names_tests(version, "-m", "not full") >= 60


@pytest.mark.full
@pytest.mark.timeout(4500)
@pytest.mark.parametrize("version", VERSIONS)
def test_the_grid(version: str) -> None:
    assert run_names_tests(version, "-m", "full") == 132
