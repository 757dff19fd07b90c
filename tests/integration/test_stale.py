"""An engine that serves something else than it was sent: what happened between push and readback is found and named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bridge_plugins.audit import WeightAudit
from bridge_plugins.engines.sglang.client import Engine
from bridge_plugins.engines.sglang.push import push
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.engines.verify import verify
from tests.integration.conftest import Serve
from tests.integration.weights import version

LAYER = "model.layers.2."


class Faulty(Engine):
    """Loses the third bucket of a push, or loads each twice."""

    fault = ""
    count = 0

    def update_weights_from_tensor(self, payloads: list[str], load_format: str) -> None:
        self.count += 1
        if self.fault == "dropped" and self.count == 3:
            return
        super().update_weights_from_tensor(payloads, load_format)


class Twice(WeightSync):
    """Sends every version twice before it asks what is served."""

    def _push(self, stream: Any, *watch: Any) -> Any:
        items = list(stream)
        super()._push(items, *watch)
        return super()._push(items)


@pytest.fixture
def served(serve: Serve, models: dict[str, Path]) -> Any:
    """An engine with version "first", and the sync that brought it."""
    engine = Faulty(serve("moe").engine.url)
    sync = WeightSync(WeightAudit("moe"), [engine], bucket_bytes=300_000)
    assert sync.push(version(models["moe"], 1).items(), "first").verdict.word == "consistent"
    yield engine, sync
    engine.fault = ""
    back = WeightSync(WeightAudit("moe"), [engine])
    assert back.push(version(models["moe"], 0).items(), "last").verdict.word == "consistent"


def test_a_bucket_that_was_dropped_is_still_the_version_before(served: Any, models: dict[str, Path]) -> None:
    engine, sync = served
    engine.fault, engine.count = "dropped", 0
    done = sync.push(version(models["moe"], 0).items(), "second", trained=True)
    assert done.verdict.word == "findings"
    assert 0 < len(done.comparisons[0].mismatched) < 60
    assert all("still serves version first" in finding.what for finding in done.verdict.findings)
    assert engine.weight_version() == "first"


def test_buckets_that_come_twice_do_no_harm(served: Any, models: dict[str, Path]) -> None:
    engine, _ = served
    twice = Twice(WeightAudit("moe"), [engine], bucket_bytes=300_000)
    assert twice.push(version(models["moe"], 0).items(), "twice").verdict.word == "consistent"
    assert engine.weight_version() == "twice"


def test_a_layer_that_comes_back_from_a_copy_after_the_push_is_named(
    served: Any, models: dict[str, Path]
) -> None:
    engine, sync = served
    first = version(models["moe"], 1)
    summaries = [summary_of(first, "first"), summary_of(version(models["moe"], 0), "second")]
    done = sync.push(version(models["moe"], 0).items(), "second", trained=True)
    assert done.verdict.word == "consistent"
    # As an engine does that wakes up and restores what it kept of the version before.
    push([(name, tensor) for name, tensor in first.items() if name.startswith(LAYER)], [engine])
    later = verify(summaries[1], [engine], summaries[0]).verdict(summaries[1])
    assert later.word == "findings"
    assert [finding.layer for finding in later.findings] == ["layer 2"]
    assert "still serves version first of 33 tensors" in later.findings[0].what


def summary_of(weights: dict[str, Any], label: str) -> Any:
    audit = WeightAudit("moe")
    for _ in audit.watch(weights.items()):
        pass
    return audit.finish(label)[0]
