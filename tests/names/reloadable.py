"""Process groups as RL frameworks wrap them, to free NCCL's memory while the rollout engine runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

#: What such frameworks replace in torch.distributed, so that it takes their wrappers for groups.
UNWRAPPING = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "get_backend", "get_global_rank", "get_group_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "irecv", "isend", "recv", "reduce", "reduce_scatter",
    "reduce_scatter_tensor", "scatter", "send",
)  # fmt: skip


class Reloadable(dist.ProcessGroup):
    """Stands for a group that may be destroyed and made anew; in no table of torch's."""

    def __init__(self, group: Any) -> None:
        super().__init__(group.rank(), group.size())
        self.group = group

    def rank(self) -> int:
        return int(self.group.rank())

    def size(self) -> int:
        return int(self.group.size())

    def name(self) -> str:
        return str(self.group.name())


def install(unwrapping: tuple[str, ...] = UNWRAPPING) -> Callable[[], None]:
    """Let every group made from now on be wrapped, and let these functions of torch.distributed unwrap.

    Gives what destroys the groups and makes them anew; every rank must call it.
    """
    make = dist.new_group
    made: list[tuple[Any, Any, Any]] = []

    @functools.wraps(make)
    def new_group(*args: Any, **kwargs: Any) -> Any:
        group = make(*args, **kwargs)
        wrapper = Reloadable(group) if isinstance(group, dist.ProcessGroup) else group
        made.append((wrapper, args, kwargs))
        return wrapper

    def reload() -> None:
        for wrapper, args, kwargs in made:  # a group that this rank isn't in needs this rank to be made, too
            if isinstance(wrapper, Reloadable):
                dist.destroy_process_group(wrapper.group)
            group = make(*args, **kwargs)
            if isinstance(wrapper, Reloadable):
                wrapper.group = group

    dist.new_group = new_group
    for name in unwrapping:
        setattr(dist, name, _unwrapped(getattr(dist, name)))
    return reload


def _unwrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*map(_inner, args), **{name: _inner(value) for name, value in kwargs.items()})

    return call


def _inner(value: Any) -> Any:
    return value.group if isinstance(value, Reloadable) else value
