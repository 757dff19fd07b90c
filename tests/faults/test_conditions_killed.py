"""Each rank killed in turn: the others are told within the time that a collective waits, and no engine's version moves."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from bridge_plugins.audit import WeightAudit, read_summary
from bridge_plugins.engines.sync import WeightSync
from bridge_plugins.errors import PushError
from tests.faults.conditions_ranks import KILLED, PATIENCE, run_and_kill
from tests.integration.conftest import Serve, models, serve
from tests.stacks.models import Checkpoint

__all__ = ["models", "serve"]

Killed = Callable[..., list[str]]
#: What gloo says of a peer that is gone.
GONE = re.compile(r"^\w*Error: .*(?:[Cc]onnection|closed|reset|[Tt]imed out|timeout)", re.DOTALL)


@pytest.fixture
def killed(tmp_path: Path) -> Killed:
    def get(function: str, world: int, victim: int, **arguments: Any) -> list[str]:
        """What the survivors were told."""
        folder = tmp_path / f"{function}-{victim}"
        folder.mkdir()
        told = run_and_kill(
            folder,
            f"tests.faults.conditions_ranks:{function}",
            world,
            victim,
            timeout=90 + PATIENCE,
            **arguments,
        )
        assert told.pop(victim) == KILLED
        return told

    return get


@pytest.mark.ci
@pytest.mark.parametrize("victim", range(2))
@pytest.mark.parametrize("where", ["export", "all_gather_object", "broadcast_object_list"])
def test_during_an_audit(killed: Killed, where: str, victim: int) -> None:
    told = killed("audit", 2, victim, where=where)
    if where == "broadcast_object_list" and victim:
        # The first rank has said its word already, and need not hear whether it arrived.
        assert all(one == "finished" or GONE.match(one) for one in told), told
    else:
        assert all(GONE.match(one) for one in told), told


@pytest.mark.ci
@pytest.mark.parametrize("victim", range(2))
def test_while_ranks_bring_together_what_they_hold(killed: Killed, victim: int) -> None:
    told = killed("local", 2, victim)
    assert all(GONE.match(one) for one in told), told


@pytest.mark.ci
@pytest.mark.parametrize("victim", range(2))
def test_during_an_export_of_the_bridge_in_automatic_mode(
    killed: Killed, checkpoint: Checkpoint, tmp_path: Path, victim: int
) -> None:
    folder = tmp_path / "audit"
    [told] = killed(
        "automatic",
        2,
        victim,
        checkpoint=str(checkpoint("qwen3_moe")),
        topology={"pp": 2},
        audits=str(folder),
    )
    assert GONE.match(told), told
    [path] = folder.iterdir()
    survivor = read_summary(path)
    assert (survivor.header.rank, survivor.header.partial[:9]) == (1 - victim, "it failed")
    assert not survivor.findings  # of a partial export nothing is missing


@pytest.mark.ci
@pytest.mark.parametrize("victim", range(2))
@pytest.mark.parametrize("where", ["push", "readback"])
def test_during_a_push_to_a_real_engine(
    killed: Killed, serve: Serve, models: dict[str, Path], where: str, victim: int
) -> None:
    engine = serve("moe").engine
    engine.set_weight_version("before")
    [told] = killed("push", 2, victim, where=where, checkpoint=str(models["moe"]), url=engine.url)
    if where == "readback" and victim == 1:
        assert told == "consistent" or GONE.match(told), told  # the first rank may not have noticed
        assert engine.weight_version() == "of the dead"  # all of it was sent, read back and is right
    else:
        assert GONE.match(told), told
        assert engine.weight_version() == "before"
    weights = load_file(models["moe"] / "model.safetensors")
    if where == "push" and victim == 0:
        # Nobody is left to close the update. It could be somebody else's: it is left alone until it is closed by hand.
        with pytest.raises(PushError, match="could not begin the update"):
            WeightSync(WeightAudit("moe"), [engine]).push(weights.items(), "after")
        assert engine.weight_version() == "before"
        engine.end_weight_update()
    assert (
        WeightSync(WeightAudit("moe"), [engine]).push(weights.items(), "after").verdict.word == "consistent"
    )
    assert engine.weight_version() == "after"
