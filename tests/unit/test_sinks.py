"""Sinks: off unless asked for, each tells what it saw, and one that fails or is missing starves no other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from bridge_plugins import sinks
from bridge_plugins.audit import Finding, WeightAudit, read_summary
from bridge_plugins.parity import ParityReport, Scored, Scores, compare, read_scores
from bridge_plugins.plugins import manager
from bridge_plugins.sinks.scalars import Scalars
from tests.unit.audit.model import summary, weights


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    """Audits a version with the sinks that are named."""
    monkeypatch.setenv("BRIDGE_AUDIT_DIR", str(tmp_path))
    had = manager().is_registered(sinks)
    if not had:
        manager().register(sinks)
    sinks._sink.cache_clear()

    def audit(names: str, factor: float = 1.0, version: str = "7") -> None:
        monkeypatch.setenv("BRIDGE_AUDIT_SINKS", names)
        one = WeightAudit("tiny")
        list(one.watch((f"model.layers.{n}.w", torch.full((2, 2), factor)) for n in range(2)))
        one.finish(version)

    yield audit
    if not had:
        manager().unregister(sinks)


def test_off_unless_asked_for(told: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        told("")
    assert list(tmp_path.iterdir()) == []
    assert "audit version" not in caplog.text


def test_json_and_log(told: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        told("json, log")
        told("log", float("nan"), "8")
    assert read_summary(tmp_path).header.version == "7"
    lines = [r for r in caplog.records if r.name == "bridge_plugins.sinks.log_line"]
    assert [line.levelname for line in lines] == ["INFO", "WARNING"]
    assert lines[0].getMessage().startswith("audit version=7 stage=hf tensors=2 bytes=32 digest=")
    assert "errors=2 warnings=0" in lines[1].getMessage()


def test_a_sink_that_is_unknown_or_fails_starves_no_other(
    told: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("bridge_plugins.sinks.log_line.tell", full)
    told("nonsense,log,json")
    assert "there is no sink nonsense; known are json, log, tensorboard, wandb" in caplog.text
    assert "sink log failed" in caplog.text
    assert read_summary(tmp_path).header.version == "7"


def test_scalars_tell_findings_seconds_and_how_far_a_layer_drifted() -> None:
    scalars = Scalars()
    step, values = scalars.of(summary(weights(), version="3", seconds=0.25), [Finding("SET", "x", "y")])
    assert (step, values) == (3, {"audit/hf/errors": 1.0, "audit/hf/warnings": 0.0, "audit/hf/seconds": 0.25})
    scaled = {n: t * 2 if "layers.1." in n else t for n, t in weights().items()}
    step, values = scalars.of(summary(scaled, version="step-4"), [])
    assert step == 2
    assert values["audit/hf/drift/model.layers.1"] == pytest.approx(1.0)
    assert values["audit/hf/drift/model.layers.0"] == 0.0


def test_parity_is_told_too(told: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def scored(logprob: float) -> list[Scored]:
        return [Scored((1, 2), 1, (logprob,), (2,), ("7",))]

    report = ParityReport.of(
        "7", {"near": compare(scored(-1), scored(-1)), "far": compare(scored(-1), scored(-2))}, 0.03
    )
    with caplog.at_level(logging.INFO):
        told("json,log")
        manager().hook.after_parity(report=report, scores=Scores("7", tuple(scored(-2))))
    assert read_summary(tmp_path).header.version == "7"
    assert read_scores(tmp_path / "v000007.scores").sequences[0].logprobs == (-2.0,)
    lines = [r for r in caplog.records if r.getMessage().startswith("parity version=7 engine=")]
    assert [line.levelname for line in lines] == ["WARNING", "WARNING"]
    step, values = Scalars().of_parity(report)
    assert step == 7
    assert (values["parity/mean_abs"], values["parity/kl_k1"], values["parity/greedy"]) == (1.0, 1.0, 1.0)
