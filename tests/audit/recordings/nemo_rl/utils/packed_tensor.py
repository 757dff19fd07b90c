"""NeMo-RL by broadcast: what `post_iter_func` makes of each item is packed."""
# ruff: noqa: ARG001 (the signatures are theirs)

from __future__ import annotations

from typing import Any

SENT: list[Any] = []


def packed_broadcast_producer(iterator: Any, group: Any, src: int, post_iter_func: Any) -> None:
    for item in iterator:
        SENT.append(post_iter_func(item))
