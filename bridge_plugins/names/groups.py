"""A rank's place in a process group, whatever stands for the group."""

from __future__ import annotations

from typing import Any, NamedTuple

from bridge_plugins.errors import NamingError


class Place(NamedTuple):
    """This rank's number in a group, and the group's size."""

    rank: int
    size: int


ALONE = Place(0, 1)


def place(group: Any) -> Place:
    """This rank's place in `group`. ``None`` is a group of one.

    Asks neither torch's table of groups (a wrapper isn't in it) nor, for a wrapper derived from ProcessGroup,
    the group inside (it may be destroyed for now, to be made anew later): such a wrapper was itself
    constructed with rank and size. Raises `NamingError` for an object that tells neither.
    """
    import torch.distributed as dist

    if group is None:
        return ALONE
    if dist.is_available() and isinstance(group, dist.ProcessGroup):
        return Place(dist.ProcessGroup.rank(group), dist.ProcessGroup.size(group))
    try:
        return Place(int(group.rank()), int(group.size()))
    except (AttributeError, TypeError, RuntimeError) as error:
        raise NamingError(
            f"a process group of type {type(group).__name__} tells neither rank nor size ({error}); "
            "give one that derives from torch.distributed.ProcessGroup, or has rank() and size()"
        ) from error
