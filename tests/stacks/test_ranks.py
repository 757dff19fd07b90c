"""The fork server itself, and one real round trip through it."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

from bridge_plugins.topology import Topology
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import RankError, Ranks


def add_up(start: int) -> int:
    import torch
    import torch.distributed as dist

    total = torch.tensor(start + dist.get_rank())
    dist.all_reduce(total)
    return int(total)


def fail_on(rank: int) -> None:
    import torch.distributed as dist

    if dist.get_rank() == rank:
        print("the last words of the log")
        raise ValueError("on purpose")
    dist.barrier()


def get_stuck(rank: int) -> None:
    import torch.distributed as dist

    if dist.get_rank() == rank:
        threading.Event().wait()


def process_id() -> int:
    return os.getpid()


def round_trip(checkpoint: str, topology: dict[str, Any]) -> dict[str, int]:
    import torch
    from safetensors.torch import load_file

    from tests.stacks.trainer import build

    exported = build(checkpoint, Topology(**topology)).export()
    source = load_file(f"{checkpoint}/model.safetensors")
    assert sorted(exported) == sorted(source)
    wrong = [name for name in source if not torch.equal(source[name], exported[name])]
    return {"tensors": len(source), "wrong": len(wrong)}


def test_every_rank_takes_part_in_a_collective(ranks: Ranks) -> None:
    assert ranks("tests.stacks.test_ranks:add_up", world=4, start=10) == [46] * 4


def test_each_rank_is_a_process_of_its_own(ranks: Ranks) -> None:
    assert len({os.getpid(), *ranks("tests.stacks.test_ranks:process_id", world=3)}) == 4


def test_a_failed_rank_stops_the_others_and_shows_its_traceback_and_log(ranks: Ranks) -> None:
    with pytest.raises(RankError, match=r"(?s)rank 2 failed.*ValueError: on purpose.*the last words"):
        ranks("tests.stacks.test_ranks:fail_on", world=4, rank=2)


def test_a_rank_that_waits_for_ever_is_stopped(ranks: Ranks) -> None:
    with pytest.raises(RankError, match="still ran after 2 s"):
        ranks("tests.stacks.test_ranks:get_stuck", world=2, timeout=2, rank=1)


@pytest.mark.parametrize("family", ["qwen3", "qwen3_moe", "deepseek_v3"])
def test_a_checkpoint_round_trips_bit_for_bit(ranks: Ranks, checkpoint: Checkpoint, family: str) -> None:
    topology = {"tp": 2, "pp": 2} if family == "qwen3" else {"pp": 2, "ep": 2}
    results = ranks(
        "tests.stacks.test_ranks:round_trip", world=4, checkpoint=str(checkpoint(family)), topology=topology
    )
    assert all(result["tensors"] > 30 and result["wrong"] == 0 for result in results)
