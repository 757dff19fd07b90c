"""No false alarm: real models, really trained at the learning rates of RL, have nothing to be found."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import Ranks

FULL: dict[str, Any] = {"tp": 2, "pp": 2, "ep": 2}


def clean_run(
    ranks: Ranks, checkpoint: Any, topology: dict[str, Any], **options: Any
) -> list[dict[str, Any]]:
    return ranks(
        "tests.audit.cases:clean_run", world=Topology(**topology).world, timeout=240,
        checkpoint=str(checkpoint), topology=topology, **options,
    )  # fmt: skip


def check(results: list[dict[str, Any]]) -> None:
    first = results[0]
    assert first["said"] == []
    assert all(result == first for result in results[1:])
    loaded, again, trained, more = first["digests"]
    assert loaded == again
    assert len({loaded, trained, more}) == 3  # it was really trained


@pytest.mark.parametrize(
    ("family", "sizes", "topology", "kind"),
    [("qwen3_moe", {}, FULL, ""), ("qwen3_tied", {}, {"tp": 2, "pp": 2}, "frozen")],
    ids=str,
)
def test_a_clean_run_has_no_finding(
    ranks: Ranks,
    checkpoint: Checkpoint,
    family: str,
    sizes: dict[str, Any],
    topology: dict[str, Any],
    kind: str,
) -> None:
    check(clean_run(ranks, checkpoint(family, **sizes), topology, kind=kind))
