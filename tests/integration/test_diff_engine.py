"""``bridge-audit diff`` with a real engine as one side: equal, and exchanged experts named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge_plugins.engines.sglang.push import push
from tests.integration.conftest import Serve
from tests.integration.weights import version


def diff(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bridge_plugins.cli", "audit", "diff", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def url(serve: Serve, models: dict[str, Path]) -> str:
    engine = serve("moe").engine
    push(version(models["moe"], 0).items(), [engine])
    return engine.url


def test_a_folder_and_the_engine_that_serves_it_are_equal(url: str, models: dict[str, Path]) -> None:
    for sides in ((models["moe"], url), (url, models["moe"])):
        done = diff(*sides)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.splitlines()[-1].startswith("equal        135 tensors, digest ")


def test_what_happened_in_the_engine_is_named(serve: Serve, url: str, models: dict[str, Path]) -> None:
    right = version(models["moe"], 0)
    names = [name for name in right if "layers.2.mlp.experts.5." in name]
    wrong = {name: right[name.replace("experts.5.", "experts.3.")] for name in names}
    push(wrong.items(), [serve("moe").engine])
    done = diff(models["moe"], url, "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert sorted(changed["name"] for changed in told["changed"]) == sorted(names)
    assert [(cause["where"], cause["what"]) for cause in told["causes"]] == [
        ("layer 2", "expert 5 carries the weights of expert 3")
    ]


def test_all_that_an_engine_serves_is_a_source_too(url: str) -> None:
    show = subprocess.run(
        [sys.executable, "-m", "bridge_plugins.cli", "audit", "show", url],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (show.returncode, show.stderr) == (0, "")
    assert "stage readback: 135 tensors, 1.71 M params, 3.42 MB" in " ".join(show.stdout.split())
    assert diff(url, url).returncode == 0


def test_an_engine_that_is_not_there_is_one_line(models: dict[str, Path]) -> None:
    gone = diff(models["moe"], "http://127.0.0.1:9")
    assert (gone.returncode, gone.stdout) == (2, "")
    assert gone.stderr.count("\n") == 1
    assert "the server is gone" in gone.stderr
