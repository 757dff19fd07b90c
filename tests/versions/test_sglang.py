"""Other versions of SGLang, each on its real wheel in an environment without Megatron: push, readback, verdict."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import WeightAudit
from bridge_plugins.engines.sglang.answer import Layers
from bridge_plugins.engines.sglang.transports import Transport
from bridge_plugins.engines.sglang.transports.from_disk import FromDisk
from bridge_plugins.engines.sglang.transports.from_distributed import FromDistributed
from bridge_plugins.engines.sglang.transports.from_tensor import FromTensor
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.errors import EngineError
from bridge_plugins.launch.engine import start_server
from bridge_plugins.launch.processes import Run
from bridge_plugins.topology import Topology
from tests.integration.conftest import models
from tests.integration.weights import version as weights

__all__ = ["models"]

ROOT = Path(__file__).parents[2]
#: What a version is tried for: it has no begin and end, and older fields; it is newer than what stands beside a trainer.
VERSIONS = ("0.5.16", "0.5.23")


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Any:
    """The version, and the interpreter of its environment."""
    made = subprocess.run(
        [ROOT / "scripts/sglang_version.sh", request.param], capture_output=True, text=True, timeout=900, check=False
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    return request.param, made.stdout.strip()


@pytest.mark.full
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("size", [1, 2], ids=["TP=1", "TP=2 EP=2"])
def test_every_transport_brings_what_is_served(
    python: tuple[str, str], models: dict[str, Path], tmp_path: Path, size: int
) -> None:
    version, interpreter = python
    topology = Topology(engine_tp=size, engine_ep=size)
    transports: list[Transport] = [FromTensor(), FromDistributed(timeout=60), FromDisk(tmp_path / "versions")]
    with Run() as run:
        server = start_server(run, models["moe"], topology, cpu=True, python=interpreter)
        server.wait(400)
        engine = server.engine
        assert engine.server_info()["version"] == version
        assert engine.begin_weight_update() is (version != "0.5.16")
        if version != "0.5.16":
            engine.end_weight_update()
        for number, transport in enumerate(transports, start=1):
            sync = WeightSync(
                WeightAudit("moe"), [engine], bucket_bytes=300_000, transport=transport, pause="retract"
            )
            done = sync.push(weights(models["moe"], number).items(), f"v{number}")
            assert done.verdict.word == "consistent", done.verdict.findings
            assert done.comparisons[0].compared_bytes == done.pushed.nbytes
            assert engine.weight_version() == f"v{number}"
            transport.close()
        reply = engine.generate(input_ids=[5, 6, 7], sampling_params={"max_new_tokens": 2})
        assert reply["meta_info"]["weight_version"] == "v3"


@pytest.mark.full
@pytest.mark.timeout(900)
def test_megatron_is_not_there_and_without_the_plugin_a_server_says_how_to_get_it(
    python: tuple[str, str], models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, interpreter = python
    asked = subprocess.run(
        [interpreter, "-c", "import megatron"], capture_output=True, text=True, check=False
    )
    assert "No module named 'megatron'" in asked.stderr
    monkeypatch.setenv("SGLANG_PLUGINS", "none")
    with Run() as run:
        server = start_server(run, models["dense"], Topology(), cpu=True, python=interpreter)
        server.wait(400)
        with pytest.raises(EngineError, match="install megatron-bridge-plugins where that server runs"):
            server.engine.ask("layers", Layers)
