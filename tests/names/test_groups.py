"""A rank's place in a group: parallel_state's, the model's own, None, and wrappers whose inner group comes and goes."""

from __future__ import annotations

from typing import Any

import pytest

from bridge_plugins.errors import NamingError
from bridge_plugins.names.groups import Place, place
from tests.names.reloadable import UNWRAPPING
from tests.stacks.models import Checkpoint
from tests.stacks.ranks import RankError, Ranks


class Counted:
    """Not a ProcessGroup at all, but it tells its numbers."""

    def rank(self) -> int:
        return 3

    def size(self) -> int:
        return 8


def test_no_group_is_a_group_of_one() -> None:
    assert place(None) == Place(0, 1)


def test_whatever_tells_rank_and_size_is_a_group() -> None:
    assert place(Counted()) == Place(3, 8)


def test_what_tells_neither_is_an_error_that_says_what_would_work() -> None:
    with pytest.raises(NamingError, match=r"type str tells neither .*give one that"):
        place("tp")


def names_under_groups(checkpoint: str, kind: str) -> list[list[str]]:
    """Each parameter's name on this rank and what it must be, with the model's groups replaced by `kind`."""
    import torch.distributed as dist

    from bridge_plugins.names.mapping import local_to_global
    from bridge_plugins.topology import Topology
    from tests.names import truth
    from tests.stacks.trainer import build

    class Reloadable(dist.ProcessGroup):
        """As frameworks wrap groups to free NCCL's memory: in no table of torch's, and empty now and then."""

        def __init__(self, group: Any) -> None:
            super().__init__(dist.get_rank(group), dist.get_world_size(group))
            self.group = group

        def rank(self) -> int:
            return int(self.group.rank())

        def size(self) -> int:
            return int(self.group.size())

    sizes = Topology(pp=2, ep=2)
    trainer = build(checkpoint, sizes, load=False)
    groups = trainer.model[0].module.pg_collection
    for field in ("pp", "ep"):
        wrapper = Reloadable(getattr(groups, field))
        if kind == "destroyed":
            wrapper.group = None
        setattr(groups, field, None if kind == "none" else wrapper)
    for layer in trainer.model[0].module.decoder.layers:
        del layer.mlp.local_expert_indices  # so that the groups are asked at all
        layer.mlp.ep_group = layer.mlp.experts.ep_group = groups.ep
    found = []
    for name, _ in trainer.model[0].named_parameters():
        local = trainer.bridge._model_bridge._unwrap_name(name)
        found.append(
            [
                local_to_global(trainer.model, trainer.model[0].config, local, 0),
                truth.global_name(local, sizes, dist.get_rank(), 0, layers=4, experts=8),
            ]
        )
    return found


@pytest.mark.parametrize("kind", ["none", "wrapped", "destroyed"])
def test_names_are_right_under_any_groups(ranks: Ranks, checkpoint: Checkpoint, kind: str) -> None:
    for found in ranks(
        "tests.names.test_groups:names_under_groups",
        world=4,
        checkpoint=str(checkpoint("qwen3_moe")),
        kind=kind,
    ):
        assert len(found) > 10
        assert all(name == wanted for name, wanted in found)


def exports_under_wrapped_groups(checkpoint: str, unwrapping: list[str], off: list[str]) -> list[list[str]]:
    """Which tensors differ: in an export, and in another one after all groups were destroyed and made anew."""
    import bridge_plugins
    from bridge_plugins.topology import Topology
    from tests.names import reloadable
    from tests.names.case import changed
    from tests.stacks.trainer import build

    for patch in off:
        bridge_plugins.load().revert(patch)
    reload = reloadable.install(tuple(unwrapping))
    trainer = build(checkpoint, Topology(pp=2, ep=2), load=False)
    first = changed(trainer, checkpoint)
    reload()
    return [first, changed(trainer, checkpoint)]


#: Frameworks differ in what they replace; an early list had no `broadcast_object_list`.
FEWER = [name for name in UNWRAPPING if name not in ("broadcast_object_list", "get_process_group_ranks")]


@pytest.mark.parametrize("unwrapping", [list(UNWRAPPING), FEWER], ids=["all replaced", "some"])
def test_an_export_under_wrapped_groups_is_right(
    ranks: Ranks, checkpoint: Checkpoint, unwrapping: list[str]
) -> None:
    for exports in _export(ranks, checkpoint, unwrapping, []):
        assert exports == [[], []]


def test_without_the_patch_a_wrapper_is_not_registered(ranks: Ranks, checkpoint: Checkpoint) -> None:
    with pytest.raises(RankError, match="in broadcast_obj_from_pp_rank"):
        _export(ranks, checkpoint, FEWER, ["wrapped_groups"])


def _export(ranks: Ranks, checkpoint: Checkpoint, unwrapping: list[str], off: list[str]) -> Any:
    return ranks(
        "tests.names.test_groups:exports_under_wrapped_groups",
        world=4,
        checkpoint=str(checkpoint("qwen3_moe")),
        unwrapping=unwrapping,
        off=off,
    )
