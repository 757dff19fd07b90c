"""Public faults of an engine with pipeline stages and tied embeddings, which is pushed to from disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge_plugins.engines.sglang.transports.from_disk import FromDisk
from tests.engine.model_rank import Sizes
from tests.engine.pushed import Old
from tests.engine.servers import Servers, fault
from tests.faults.named import Named

pytestmark = pytest.mark.ci

STAGES = ("Qwen3, tied embeddings", Sizes(pp=2))


def test_a_version_from_disk_is_on_every_stage(servers: Servers, tmp_path: Path) -> None:
    disk = FromDisk(tmp_path)
    old = Old(servers, *STAGES, transport=disk)
    old.push(transport=disk)
    found = old.compare()
    assert found.consistent, (found.findings, found.not_compared)
    assert found.compared_bytes == found.total_bytes


@pytest.mark.fault(
    49, place="engine's loader", rule="READBACK",
    named="model.embed_tokens.weight (ranks 1): the engine still serves version 1 of model.embed_tokens.weight; "
    "what was sent did not come into the engine's lm_head.weight",
)  # fmt: skip
def test_a_last_stage_that_passes_over_the_embedding_which_is_its_head(
    servers: Servers, named: Named, tmp_path: Path
) -> None:
    disk = FromDisk(tmp_path)
    old = Old(servers, *STAGES, transport=disk)
    fault(old.engine, "arm", rank=1, loader="without", pattern="embed_tokens")
    old.push(transport=disk)
    said = old.said()
    fault(old.engine, "disarm")
    named(said)
