"""Parity with a real engine: the trainer's own probe, its file on the command line, and a checkpoint's folder there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bridge_plugins.engines.sglang.push import push
from bridge_plugins.parity import read_scores
from tests.integration.conftest import Serve
from tests.integration.weights import version
from tests.stacks.ranks import Ranks

CHANGED = "model.layers.2.self_attn.o_proj.weight"
NOBODY = "http://127.0.0.1:9"


def parity(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bridge_plugins.cli", "audit", "parity", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def serve_weights(serve: Serve, model: Path, *, changed: bool) -> str:
    """The server, with the checkpoint's weights as version 7; one of them twice as large if `changed`."""
    engine = serve("moe").engine
    push(version(model, 0).items(), [engine])
    if changed:
        push([(CHANGED, version(model, 1)[CHANGED])], [engine])
    engine.set_weight_version("7")
    return engine.url


@pytest.mark.ci
def test_a_folder_is_held_against_what_an_engine_serves(serve: Serve, models: dict[str, Path]) -> None:
    url = serve_weights(serve, models["moe"], changed=False)
    done = parity(models["moe"], "--engine", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1].startswith("VERDICT within the limit ")

    url = serve_weights(serve, models["moe"], changed=True)
    done = parity(models["moe"], "--engine", url, "--engine", NOBODY, "--prompt", "Alice", "--json")
    assert (done.returncode, done.stderr) == (1, "")
    told = json.loads(done.stdout)
    assert told["engines"][url]["mean_abs"] > told["limit"] == 0.03
    assert [finding["where"] for finding in told["findings"]] == [url, NOBODY]
    assert "the server is gone" in told["failed"][NOBODY]


@pytest.mark.ci
def test_a_trainers_own_scores_are_kept_and_asked_for_again(
    ranks: Ranks, serve: Serve, models: dict[str, Path], tmp_path: Path
) -> None:
    url = serve_weights(serve, models["moe"], changed=False)
    reports = ranks(
        "tests.parity.probe_case:measure", world=4, checkpoint=str(models["moe"]), urls=[url],
        topology={"tp": 2, "pp": 2, "ep": 2}, version="7", folder=str(tmp_path),
    )  # fmt: skip
    assert all(report == reports[0] for report in reports)
    assert reports[0]["findings"] == []
    [mine] = reports[0]["engines"].values()
    assert mine["versions"] == ["7"]
    assert mine["greedy"] > 0.8

    file = tmp_path / "v000007.scores"
    assert parity(file, "--engine", url).returncode == 0
    strict = parity(file, "--engine", url, "--contract", "qwen3_moe_true_on_policy_v1")
    assert strict.returncode == 1
    assert "nats in the mean; 0 is allowed" in strict.stdout

    url = serve_weights(serve, models["moe"], changed=True)
    done = parity(file, "--engine", url)
    assert done.returncode == 1
    assert f"finding    PARITY {url}: log probabilities differ by " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("VERDICT findings  version=7 engines=1 ")

    serve("moe").engine.set_weight_version("8")
    assert (
        "serves version 8, and the trainer's scores are of version 7" in parity(file, "--engine", url).stdout
    )
    assert read_scores(file).version == "7"
