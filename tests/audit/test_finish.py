"""`finish` on several ranks: one outcome for all of them, ranks that differ are named, and a veto reaches everybody."""

from __future__ import annotations

from typing import Any

import pytest

from tests.stacks.ranks import Ranks


def finish(ranks: Ranks, **options: Any) -> dict[str, Any]:
    results = ranks("tests.audit.cases:finish_with", world=3, timeout=60, **options)
    assert [result["asked"] for result in results] == [[0], [], []]
    for result in results[1:]:
        assert (result["vetoed"], result["findings"]) == (results[0]["vetoed"], results[0]["findings"])
    outcome: dict[str, Any] = results[0]
    return outcome


def test_a_clean_version_passes_strict_mode(ranks: Ranks) -> None:
    assert finish(ranks, strict=True) == {"vetoed": "", "findings": [], "asked": [0]}


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("bits", "MANIFEST model.layers.4 (ranks 2): ranks exported other weights than rank 0"),
        ("missing", "MANIFEST model.layers.5 (ranks 2): ranks exported other weights than rank 0"),
        ("order", "MANIFEST model (ranks 2): ranks exported in another order than rank 0"),
    ],
)
def test_a_rank_that_differs_is_named(ranks: Ranks, fault: str, said: str) -> None:
    (line,) = finish(ranks, odd_rank=2, fault=fault)["findings"]
    assert line.startswith(said)


def test_ranks_that_give_different_labels_are_named(ranks: Ranks) -> None:
    (line,) = finish(ranks, versions=["7", "7", "8"])["findings"]
    assert line.startswith("VERSION model (ranks 2): ranks call this version 8, the first rank calls it 7")


def test_a_hook_that_objects_stops_every_rank(ranks: Ranks) -> None:
    assert finish(ranks, objects="not on a Friday")["vetoed"] == "version 1 is not pushed: not on a Friday"


def test_strict_mode_stops_a_version_with_an_error_on_every_rank(ranks: Ranks) -> None:
    vetoed = finish(ranks, strict=True, fault="nan")["vetoed"]
    assert vetoed.startswith(
        "version 1 is not pushed: STATS layer 2 w.weight: 128 elements are NaN or infinite"
    )
    assert finish(ranks, strict=False, fault="nan")["vetoed"] == ""
