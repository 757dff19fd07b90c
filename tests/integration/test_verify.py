"""``bridge-audit verify`` on real servers: exit statuses, what it prints, and its JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge_plugins.engines.sglang.push import push
from tests.integration.conftest import Serve
from tests.integration.weights import version

COMMAND = [sys.executable, "-m", "bridge_plugins.cli", "audit", "verify"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False
    )


@pytest.fixture
def url(serve: Serve, models: dict[str, Path]) -> str:
    engine = serve("moe").engine
    push(version(models["moe"], 0).items(), [engine])
    return engine.url


def test_an_engine_that_serves_the_folder_is_consistent(url: str, models: dict[str, Path]) -> None:
    done = run(models["moe"], "--engine", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of 135 tensors differ, 3,419,392 of 3,419,392 bytes compared" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("VERDICT consistent ")


def test_one_that_serves_other_weights_is_found_and_the_tensor_named(
    serve: Serve, url: str, models: dict[str, Path]
) -> None:
    name = "model.layers.2.mlp.experts.5.down_proj.weight"
    wrong = version(models["moe"], 1)[name]
    push([(name, wrong)], [serve("moe").engine])
    done = run(models["moe"], "--engine", url, "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert told["word"] == "findings"
    assert told["engines"][0]["mismatched"] == [name]
    assert [found["parameter"] for found in told["findings"]] == [name]
    assert (told["findings"][0]["layer"], told["findings"][0]["expert"]) == ("layer 2", 5)


def test_of_two_engines_the_one_that_is_gone_is_named(url: str, models: dict[str, Path]) -> None:
    done = run(models["moe"], "--engine", url, "--engine", "http://127.0.0.1:9")
    assert done.returncode == 1
    assert "READBACK http://127.0.0.1:9: could not be read back" in done.stdout
    assert "0 of 135 tensors differ" in done.stdout


def test_what_can_not_be_done_is_one_line_and_exit_2(url: str, models: dict[str, Path]) -> None:
    nobody = run(models["moe"], "--engine", "http://127.0.0.1:9")
    no_key = run(models["moe"], "--engine", url, "--api-key-env", "NO_SUCH_VARIABLE")
    no_source = run("nowhere", "--engine", url)
    for done, said in ((nobody, "the server is gone"), (no_key, "no such variable"), (no_source, "nowhere")):
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert said in done.stderr
