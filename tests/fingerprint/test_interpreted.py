"""The Triton kernels without a GPU: the tests in `interpreted/`, in a process that starts Triton's interpreter."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "interpreted"


def run(marks: str) -> None:
    command = [sys.executable, "-m", "pytest", str(FOLDER), "-q", "-x", "-m", marks, "-p", "no:cacheprovider"]
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=FOLDER.parents[2])
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout


def test_kernels_in_the_interpreter() -> None:
    run("not ci and not full")


@pytest.mark.ci
@pytest.mark.timeout(1200)
def test_kernels_in_the_interpreter_on_every_dtype() -> None:
    run("ci")
