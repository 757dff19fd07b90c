"""What only the first rank can do, and all ranks must hear of."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import torch.distributed as dist

from bridge_plugins.errors import BridgePluginsError

logger = logging.getLogger(__name__)

Result = TypeVar("Result")


def on_first_rank(
    act: Callable[[], Result], group: Any = None, *, error_type: type[BridgePluginsError], what: str = ""
) -> Result:
    """Run `act` on rank 0 of `group`; every rank must call this, and gets what `act` returned there.

    Args:
        act: returns something that can be pickled.
        group: a CPU process group; None for the default group, if there is one.
        error_type: raised on every rank, with what `act` raised.
        what: stands before that in the message.
    """
    distributed = dist.is_available() and dist.is_initialized()
    shared: list[Any] = [None, ""]
    if not distributed or dist.get_rank(group) == 0:
        try:
            shared[0] = act()
        except BridgePluginsError as error:
            shared[1] = str(error)
        except Exception as error:  # whatever it is, the other ranks wait for our word
            logger.exception("rank 0 failed")
            shared[1] = f"{type(error).__name__}: {error}"
    if distributed:
        dist.broadcast_object_list(shared, group=group, group_src=0)
    if shared[1]:
        raise error_type(what + shared[1])
    result: Result = shared[0]
    return result
