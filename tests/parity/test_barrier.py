"""The logging barrier on real ranks: who waits for whom, who is missed, and what an error does to the others."""

from __future__ import annotations

from datetime import timedelta

from tests.stacks.ranks import Ranks

MOMENT = timedelta(seconds=1)  #: how long something that must not happen is given to happen


def together(tp: int) -> list[bool]:
    """Rank 0 logs and rank 1 doesn't: whether each waits for the other, before and after."""
    import torch.distributed as dist

    from bridge_plugins.parity.barrier import LoggingBarrier
    from bridge_plugins.topology import Topology

    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    barrier = LoggingBarrier(Topology(tp=tp, world=2), timeout=30)
    if rank == 0:
        with barrier("metrics"):
            store.set("entered", "")
            waits = not happens(store, "left")
        return [waits]
    waits = not happens(store, "entered")
    with barrier("metrics"):
        pass
    store.set("left", "")
    return [waits]


def happens(store: object, key: str) -> bool:
    try:
        store.wait([key], MOMENT)  # type: ignore[attr-defined]
    except Exception:
        return False
    return True


def an_error_inside() -> str:
    """Rank 0's logger fails; the others must not wait for it, now or the next time."""
    import torch.distributed as dist

    from bridge_plugins.parity.barrier import LoggingBarrier
    from bridge_plugins.topology import Topology

    barrier = LoggingBarrier(Topology(pp=2), timeout=30)
    said = "nothing"
    try:
        with barrier("metrics"):
            if dist.get_rank() == 0:
                raise OSError("no space left")
    except OSError as error:
        said = str(error)
    with barrier("more metrics"):
        return said


def two_do_not_come() -> str:
    import torch.distributed as dist

    from bridge_plugins.errors import BarrierError
    from bridge_plugins.parity.barrier import LoggingBarrier
    from bridge_plugins.topology import Topology

    store, rank = dist.distributed_c10d._get_default_store(), dist.get_rank()
    barrier = LoggingBarrier(Topology(ep=2, world=4), timeout=1)
    said = "did not come"
    if rank in (0, 2):
        try:
            with barrier("metrics"):
                said = "inside"
        except BarrierError as error:
            said = str(error)
        store.set(f"told {rank}", "")
    # A rank that has ended is another error than one that is late.
    store.wait(["told 0", "told 2"], timedelta(seconds=30))
    return said


def test_ranks_wait_for_each_other_before_and_after(ranks: Ranks) -> None:
    assert ranks("tests.parity.test_barrier:together", world=2, tp=2) == [[True], [True]]


def test_replicas_alone_are_not_held_together(ranks: Ranks) -> None:
    assert ranks("tests.parity.test_barrier:together", world=2, tp=1) != [[True], [True]]


def test_an_error_of_one_rank_lets_the_others_go(ranks: Ranks) -> None:
    assert ranks("tests.parity.test_barrier:an_error_inside", world=2) == ["no space left", "nothing"]


def test_ranks_that_do_not_come_are_named(ranks: Ranks) -> None:
    first, second, third, _ = ranks("tests.parity.test_barrier:two_do_not_come", world=4)
    assert "before metrics: rank 0 waited 1 s for other ranks" in first
    assert "Ranks 1, 3 failed" in first
    assert "before metrics: rank 2 waited" in third
    assert second == "did not come"
