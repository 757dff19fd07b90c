"""What ranks of an engine's world leave for each other, over real gloo."""

from __future__ import annotations

from tests.stacks.ranks import Ranks


def leave_and_collect() -> dict[str, str]:
    """Rank 1 and 2 leave replies to two requests, rank 0 collects those of one of them, and those of rank 3 never come."""
    import torch.distributed as dist

    from bridge_plugins.engines.sglang import world

    rank, _ = world.rank_and_size()
    if rank in (1, 2):
        for request in ("a", "b"):
            world.leave_for_first_stage(request, rank, f"{request} from {rank}")
    dist.barrier()
    if rank:
        return {}
    found = world.left_by_others("a", [1, 2, 3])
    assert world.left_by_others("a", [1, 2, 3]) == {}, "a reply is told once"
    return {str(key): value for key, value in found.items()}


def test_replies_wait_in_the_store_by_request_and_rank(ranks: Ranks) -> None:
    found = ranks("tests.engine.test_stages:leave_and_collect", world=3)
    assert found == [{"1": "a from 1", "2": "a from 2"}, {}, {}]
